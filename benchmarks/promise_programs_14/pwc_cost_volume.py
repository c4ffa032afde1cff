"""Optical flow: a cost volume, a warp with its mask, a context block, census and smoothness losses."""

from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def correlate(left: Tensor, right: Tensor, radius: int) -> Tensor:
    h, w = left.shape[-2:]
    padded = F.pad(right, [radius, radius, radius, radius])
    costs: List[Tensor] = []
    for i in range(2 * radius + 1):
        for j in range(2 * radius + 1):
            costs.append((left * padded[:, :, i : i + h, j : j + w]).mean(1))
    return F.leaky_relu(torch.stack(costs, dim=1), 0.1, inplace=True)


def warp(image: Tensor, flow: Tensor) -> Tuple[Tensor, Tensor]:
    b, _, h, w = image.shape
    xs = torch.arange(w, device=image.device, dtype=image.dtype).view(1, 1, w).expand(b, h, w)
    ys = torch.arange(h, device=image.device, dtype=image.dtype).view(1, h, 1).expand(b, h, w)
    grid = torch.stack([xs, ys], dim=1) + flow
    grid[:, 0] = 2.0 * grid[:, 0] / max(w - 1, 1) - 1.0
    grid[:, 1] = 2.0 * grid[:, 1] / max(h - 1, 1) - 1.0
    grid = grid.permute(0, 2, 3, 1)
    out = F.grid_sample(image, grid, align_corners=True)
    mask = F.grid_sample(torch.ones_like(image), grid, align_corners=True)
    mask[mask < 0.999] = 0
    mask[mask > 0] = 1
    return out * mask, mask[:, :1]


def census(image: Tensor) -> Tensor:
    gray = 0.2989 * image[:, 0:1] + 0.5870 * image[:, 1:2] + 0.1140 * image[:, 2:3]
    patches = F.unfold(gray * 255.0, [3, 3], padding=[1, 1]).view(image.size(0), 9, image.size(2), -1)
    diff = patches - gray * 255.0
    return diff / torch.sqrt(0.81 + diff**2)


def robust(x: Tensor, eps: float = 0.01, q: float = 0.4) -> Tensor:
    return torch.pow(x.abs() + eps, q)


class FlowNet(nn.Module):
    def __init__(self, radius: int = 1) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 4, 3, padding=1)
        self.radius = radius
        self.c1 = nn.Conv2d((2 * radius + 1) ** 2 + 6, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 2, 3, padding=2, dilation=2)
        self.act = nn.LeakyReLU(0.1, inplace=True)

    def forward(self, a: Tensor, b: Tensor, prior: Tensor) -> Tuple[Tensor, Tensor]:
        left, right = self.act(self.features(a)), self.act(self.features(b))
        flow = F.interpolate(prior, scale_factor=2.0, mode="bilinear", align_corners=False)
        flow *= 2.0
        warped, _ = warp(right, flow)
        left = (left - left.mean([1, 2, 3], keepdim=True)) / (left.std() + 1e-6)
        cost = correlate(left, warped, self.radius)
        h = torch.cat([cost, left, flow], dim=1)
        flow = flow + self.c2(self.act(self.c1(h)))
        image, mask = warp(b, flow)
        ta, tb = census(a), census(image)
        distance = (ta - tb).square()
        distance = (distance / (0.1 + distance)).mean(1, keepdim=True)
        inner = torch.zeros_like(mask)
        inner[:, :, 1:-1, 1:-1] = 1.0
        valid = mask * inner
        photometric = (robust(distance) * valid).sum() / (valid.sum() + 1e-6)
        wx = torch.exp(-10.0 * (a[..., 1:] - a[..., :-1]).abs().mean(1, keepdim=True))
        dx = flow[..., 1:] - flow[..., :-1]
        smooth = (robust(dx) * wx).mean() / 2.0
        loss = photometric
        loss += 0.5 * smooth
        return flow, loss


model = FlowNet()
inputs = (torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8), torch.randn(1, 2, 4, 4) * 0.3)
