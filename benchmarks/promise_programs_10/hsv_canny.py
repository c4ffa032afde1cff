"""kornia's image operators: RGB to HSV and back, a colour jitter, Gaussian blur."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def rgb_to_hsv(image: Tensor, eps: float = 1e-8) -> Tensor:
    max_rgb, argmax_rgb = image.max(-3)
    min_rgb, _ = image.min(-3)
    deltac = max_rgb - min_rgb
    v = max_rgb
    s = deltac / (max_rgb + eps)
    deltac = torch.where(deltac == 0, torch.ones_like(deltac), deltac)
    rc, gc, bc = torch.unbind((max_rgb.unsqueeze(-3) - image), dim=-3)
    h1 = bc - gc
    h2 = (rc - bc) + 2.0 * deltac
    h3 = (gc - rc) + 4.0 * deltac
    h = torch.stack((h1, h2, h3), dim=-3) / deltac.unsqueeze(-3)
    h = torch.gather(h, dim=-3, index=argmax_rgb.unsqueeze(-3)).squeeze(-3)
    h = (h / 6.0) % 1.0
    h = 2.0 * math.pi * h
    return torch.stack((h, s, v), dim=-3)


def hsv_to_rgb(image: Tensor) -> Tensor:
    h = image[..., 0, :, :] / (2 * math.pi)
    s = image[..., 1, :, :]
    v = image[..., 2, :, :]
    hi = torch.floor(h * 6) % 6
    f = ((h * 6) % 6) - hi
    one = torch.ones([], device=image.device)
    p = v * (one - s)
    q = v * (one - f * s)
    t = v * (one - (one - f) * s)
    hi = hi.long()
    indices = torch.stack([hi, hi + 6, hi + 12], dim=-3)
    out = torch.stack((v, q, p, p, t, v, t, v, v, q, p, p, p, p, t, v, v, q), dim=-3)
    return torch.gather(out, -3, indices)


def jitter(image: Tensor, brightness: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    image = (image * brightness.view(-1, 1, 1, 1)).clamp_(0.0, 1.0)
    hsv = rgb_to_hsv(image)
    hsv[:, 1] *= saturation.view(-1, 1, 1)
    hsv[:, 1].clamp_(0.0, 1.0)
    hsv[:, 0] += hue.view(-1, 1, 1) * 2 * math.pi
    hsv[:, 0] = torch.fmod(hsv[:, 0] + 2 * math.pi, 2 * math.pi)
    return hsv_to_rgb(hsv)


def blur(x: Tensor, sigma: float) -> Tensor:
    grid = torch.arange(5, device=x.device).to(x.dtype) - 2
    kernel = torch.exp(-grid.pow(2.0) / (2 * sigma**2))
    kernel /= kernel.sum()
    kernel2d = kernel[:, None] * kernel[None, :]
    return F.conv2d(F.pad(x, [2, 2, 2, 2], mode="reflect"), kernel2d[None, None])


def canny(gray: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    blurred = blur(gray, 1.0)
    padded = F.pad(blurred, [1, 1, 1, 1], mode="replicate")
    gx = 0.5 * (padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2])
    gy = 0.5 * (padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1])
    magnitude = torch.sqrt(gx * gx + gy * gy + 1e-6)
    angle = torch.atan2(gy, gx)
    angle *= 180.0 / math.pi
    angle = torch.round(angle / 45) * 45
    horizontal = (angle % 180) == 0
    left, right = torch.roll(magnitude, 1, 3), torch.roll(magnitude, -1, 3)
    up, down = torch.roll(magnitude, 1, 2), torch.roll(magnitude, -1, 2)
    top = torch.where(horizontal, torch.max(left, right), torch.max(up, down))
    magnitude = magnitude.clone()
    magnitude[magnitude < top] = 0.0
    edges = torch.zeros_like(magnitude)
    edges[magnitude > low] = 0.5
    edges[magnitude > high] = 1.0
    return magnitude, edges


def model(
    image: Tensor, brightness: Tensor, saturation: Tensor, hue: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    x = jitter(image, brightness, saturation, hue)
    gray = 0.299 * x[:, 0:1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:3]
    magnitude, edges = canny(gray, 0.05, 0.15)
    x = x.sub(0.45).div_(0.225)
    return x, magnitude, edges


inputs = (
    torch.rand(2, 3, 8, 8, requires_grad=True),
    torch.tensor([0.9, 1.2]),
    torch.tensor([1.3, 0.7]),
    torch.tensor([0.05, -0.1]),
)
