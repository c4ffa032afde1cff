"""Unsupervised optical flow: census, occlusions by range maps, edge-aware smoothness, convex upsampling."""

from typing import NamedTuple, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FlowLoss(NamedTuple):
    total: Tensor
    photometric: Tensor
    smooth: Tensor
    occluded: Tensor


def grey(image: Tensor) -> Tensor:
    return 0.2989 * image[:, 0:1] + 0.5870 * image[:, 1:2] + 0.1140 * image[:, 2:3]


def census(image: Tensor, patch: int) -> Tensor:
    intensities = grey(image) * 255
    columns = F.unfold(intensities, [patch, patch], padding=[patch // 2, patch // 2])
    neighbours = columns.view(image.size(0), patch * patch, image.size(2), image.size(3))
    diff = neighbours - intensities
    return diff / torch.sqrt(0.81 + diff**2)


def hamming(t1: Tensor, t2: Tensor) -> Tensor:
    dist = (t1 - t2) ** 2
    return (dist / (0.1 + dist)).sum(dim=1, keepdim=True)


def robust(x: Tensor, eps: float = 0.01, q: float = 0.4) -> Tensor:
    return torch.pow(x.abs() + eps, q)


def coords(n: int, h: int, w: int, like: Tensor) -> Tensor:
    ys = torch.arange(h, device=like.device, dtype=like.dtype).view(1, 1, h, 1).expand(n, 1, h, w)
    xs = torch.arange(w, device=like.device, dtype=like.dtype).view(1, 1, 1, w).expand(n, 1, h, w)
    return torch.cat([xs, ys], dim=1)


def warp(image: Tensor, flow: Tensor) -> Tuple[Tensor, Tensor]:
    n, _, h, w = image.shape
    at = coords(n, h, w, flow) + flow
    gx = 2.0 * at[:, 0] / max(w - 1, 1) - 1.0
    gy = 2.0 * at[:, 1] / max(h - 1, 1) - 1.0
    grid = torch.stack((gx, gy), dim=-1)
    valid = (gx.abs() <= 1) & (gy.abs() <= 1)
    return F.grid_sample(image, grid, align_corners=True), valid.unsqueeze(1).float()


def range_map(flow: Tensor) -> Tensor:
    n, _, h, w = flow.shape
    at = torch.round(coords(n, h, w, flow) + flow).long()
    x, y = at[:, 0], at[:, 1]
    inside = (x >= 0) & (x < w) & (y >= 0) & (y < h)
    flat = (y.clamp(0, h - 1) * w + x.clamp(0, w - 1)).view(n, -1)
    counts = torch.zeros(n, h * w, device=flow.device, dtype=flow.dtype)
    counts.scatter_add_(1, flat, inside.view(n, -1).to(flow.dtype))
    return counts.clamp(max=1.0).view(n, 1, h, w)


class Criterion(nn.Module):
    def __init__(self, patch: int = 3, edge: float = 10.0, order: int = 1, smooth_weight: float = 2.0):
        super().__init__()
        self.patch, self.edge, self.order, self.smooth_weight = patch, edge, order, smooth_weight
        self.mask_head = nn.Conv2d(2, 9 * 4, 1)

    def upsample(self, flow: Tensor) -> Tensor:
        n, _, h, w = flow.shape
        mask = self.mask_head(flow).mul(0.25).view(n, 1, 9, 2, 2, h, w)
        mask = torch.softmax(mask, dim=2)
        up = F.unfold(2.0 * flow, [3, 3], padding=[1, 1]).view(n, 2, 9, 1, 1, h, w)
        up = torch.sum(mask * up, dim=2)
        return up.permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 2 * h, 2 * w)

    def smoothness(self, flow: Tensor, image: Tensor) -> Tensor:
        ix = image[:, :, :, 1:] - image[:, :, :, :-1]
        iy = image[:, :, 1:, :] - image[:, :, :-1, :]
        wx = torch.exp(-(self.edge * ix).abs().mean(1, keepdim=True))
        wy = torch.exp(-(self.edge * iy).abs().mean(1, keepdim=True))
        fx = flow[:, :, :, 1:] - flow[:, :, :, :-1]
        fy = flow[:, :, 1:, :] - flow[:, :, :-1, :]
        if self.order == 2:
            fx, wx = fx[:, :, :, 1:] - fx[:, :, :, :-1], wx[:, :, :, 1:]
            fy, wy = fy[:, :, 1:, :] - fy[:, :, :-1, :], wy[:, :, 1:, :]
        return ((wx * robust(fx, 0.001, 0.5)).mean() + (wy * robust(fy, 0.001, 0.5)).mean()) / 2.0

    def forward(self, one: Tensor, two: Tensor, forwards: Tensor, backwards: Tensor) -> FlowLoss:
        flow = self.upsample(forwards)
        back = self.upsample(backwards)
        warped, valid = warp(two, flow)
        with torch.no_grad():
            visible = range_map(back) * valid
        difference = hamming(census(one, self.patch), census(warped, self.patch))
        padding = torch.zeros_like(difference)
        padding[:, :, 1:-1, 1:-1] = 1.0
        mask = visible * padding
        photometric = (robust(difference) * mask).sum() / (mask.sum() + 1e-6)
        smooth = self.smoothness(flow, one)
        total = photometric + self.smooth_weight * smooth
        return FlowLoss(total, photometric, smooth, 1.0 - visible.mean())


model = Criterion()
inputs = (torch.rand(1, 3, 12, 12), torch.rand(1, 3, 12, 12), torch.randn(1, 2, 6, 6), torch.randn(1, 2, 6, 6))
