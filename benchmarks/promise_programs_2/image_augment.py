"""Colour jitter of a batch of images: brightness, contrast, saturation, gamma, normalised."""

import torch
from torch import Tensor


def blend(img1: Tensor, img2: Tensor, ratio: float) -> Tensor:
    return (ratio * img1 + (1.0 - ratio) * img2).clamp(0, 1.0).to(img1.dtype)


def rgb_to_grayscale(img: Tensor) -> Tensor:
    r, g, b = img.unbind(dim=-3)
    return (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(dim=-3)


def model(img: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    img = img.float() / 255.0
    img = blend(img, torch.zeros_like(img), 1.2)
    gray = torch.mean(rgb_to_grayscale(img), dim=[-3, -2, -1], keepdim=True)
    img = blend(img, gray, 0.8)
    img = blend(img, rgb_to_grayscale(img), 1.1)
    img = (img**0.9).clamp(0, 1)
    return img.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


inputs = (torch.randint(0, 256, (2, 3, 6, 6), dtype=torch.uint8), torch.rand(3), torch.rand(3) + 0.2)
