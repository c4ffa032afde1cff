"""Augmentation of batches on the device: colours, posterise, solarise, contrast, affine maps, random erasing."""

import math
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _blend(img1: Tensor, img2: Tensor, ratio: Tensor) -> Tensor:
    ratio = ratio.view(-1, 1, 1, 1)
    return (ratio * img1 + (1.0 - ratio) * img2).clamp(0, 1)


def rgb_to_grayscale(img: Tensor) -> Tensor:
    r, g, b = img.unbind(dim=-3)
    l_img = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype)
    return l_img.unsqueeze(dim=-3)


def posterize(img: Tensor, bits: int) -> Tensor:
    levels = float(2**bits)
    return torch.floor(img * levels).clamp_(max=levels - 1) / (levels - 1)


def solarize(img: Tensor, threshold: Tensor) -> Tensor:
    return torch.where(img >= threshold.view(-1, 1, 1, 1), 1.0 - img, img)


def autocontrast(img: Tensor) -> Tensor:
    minimum = img.amin(dim=(-2, -1), keepdim=True)
    maximum = img.amax(dim=(-2, -1), keepdim=True)
    scale = 1.0 / (maximum - minimum)
    eq = ~torch.isfinite(scale)
    minimum[eq] = 0.0
    scale[eq] = 1.0
    return (img - minimum).mul(scale).clamp(0, 1)


def sharpness(img: Tensor, factor: Tensor) -> Tensor:
    kernel = torch.ones(3, 3, device=img.device, dtype=img.dtype)
    kernel[1, 1] = 5.0
    kernel /= kernel.sum()
    blurred = F.conv2d(img, kernel.expand(img.shape[-3], 1, 3, 3), groups=img.shape[-3])
    result = img.clone()
    result[..., 1:-1, 1:-1] = blurred
    return _blend(img, result, factor)


def affine_grid_of(angle: Tensor, translate: Tensor, shear: Tensor, height: int, width: int) -> Tensor:
    cos, sin = torch.cos(angle), torch.sin(angle)
    zeros = torch.zeros_like(angle)
    row1 = torch.stack([cos, -sin + shear * cos, translate[:, 0]], dim=-1)
    row2 = torch.stack([sin, cos + shear * sin, translate[:, 1] + zeros], dim=-1)
    theta = torch.stack([row1, row2], dim=1)
    ys = torch.linspace(-1.0, 1.0, height, device=angle.device)
    xs = torch.linspace(-1.0, 1.0, width, device=angle.device)
    ones = torch.ones(height, width, device=angle.device)
    base = torch.stack([xs.expand(height, width), ys.unsqueeze(-1).expand(height, width), ones], dim=-1)
    return torch.einsum("hwk,bck->bhwc", base, theta)


class TrivialAugment(nn.Module):
    mean: List[float]
    std: List[float]

    def __init__(self, mean: List[float], std: List[float], erase: float = 0.25, fill: Optional[float] = 0.5) -> None:
        super().__init__()
        self.mean, self.std, self.erase, self.fill = mean, std, erase, fill
        self.ops = ["colour", "solarize", "posterize", "contrast", "sharp"]
        self.strength = nn.Parameter(torch.tensor([0.5, 0.7, 0.4]))

    def apply_op(self, name: str, img: Tensor, m: Tensor) -> Tensor:
        if name == "colour":
            return _blend(img, rgb_to_grayscale(img).expand_as(img), 1.0 + m * self.strength[0])
        if name == "solarize":
            return solarize(img, 1.0 - 0.5 * m.abs())
        if name == "posterize":
            return img + (posterize(img, 4) - img).detach()
        if name == "contrast":
            return torch.lerp(img, autocontrast(img.detach()), 0.5)
        return sharpness(img, 1.0 + m * self.strength[1])

    def random_erase(self, img: Tensor, centre: Tensor) -> Tensor:
        b, _, h, w = img.shape
        ys = torch.arange(h, device=img.device).view(1, h, 1)
        xs = torch.arange(w, device=img.device).view(1, 1, w)
        cy, cx = centre[:, 0].view(b, 1, 1) * h, centre[:, 1].view(b, 1, 1) * w
        side = math.sqrt(self.erase * h * w) / 2
        box = ((ys - cy).abs() <= side) & ((xs - cx).abs() <= side)
        if self.fill is None:
            return img * (~box).unsqueeze(1)
        return img.masked_fill(box.unsqueeze(1), self.fill)

    def forward(self, img: Tensor, magnitude: Tensor, angle: Tensor, centre: Tensor) -> Tuple[Tensor, Tensor]:
        x = img
        for i, name in enumerate(self.ops):
            x = self.apply_op(name, x, magnitude[:, i])
        grid = affine_grid_of(angle * self.strength[2], 0.1 * centre, 0.1 * angle, x.size(2), x.size(3))
        x = F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
        x = self.random_erase(x, centre)
        gamma = (1.0 + 0.2 * magnitude[:, 0]).view(-1, 1, 1, 1)
        x = x.clamp(min=1e-6).pow(gamma)
        vignette = 1 - 0.3 * torch.sum(grid**2, dim=-1).clamp(max=1).unsqueeze(1)
        x = x * vignette
        mean = torch.as_tensor(self.mean, dtype=x.dtype, device=x.device)
        std = torch.as_tensor(self.std, dtype=x.dtype, device=x.device)
        x = x.sub(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))
        return x, x.flatten(2).var(dim=-1, unbiased=False).mean(1)


model = TrivialAugment([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
inputs = (torch.rand(3, 3, 10, 10), torch.rand(3, 5) * 2 - 1, torch.rand(3) - 0.5, torch.rand(3, 2))
