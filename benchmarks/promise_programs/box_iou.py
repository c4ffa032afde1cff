"""Generalised IoU of paired boxes."""

import torch
from torch import Tensor


def area(boxes: Tensor) -> Tensor:
    side = (boxes[:, 2:] - boxes[:, :2]).clamp_min(0.0)
    return side[:, 0] * side[:, 1]


def model(a: Tensor, b: Tensor) -> Tensor:
    low = torch.maximum(a[:, :2], b[:, :2])
    high = torch.minimum(a[:, 2:], b[:, 2:])
    side = (high - low).clamp_min(0.0)
    both = side[:, 0] * side[:, 1]
    union = area(a) + area(b) - both
    iou = both / (union + 1e-6)
    hull = torch.cat([torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:])], 1)
    whole = area(hull)
    return 1 - (iou - (whole - union) / (whole + 1e-6))


def boxes() -> Tensor:
    low = torch.rand(7, 2)
    return torch.cat([low, low + torch.rand(7, 2)], 1)


inputs = (boxes().requires_grad_(), boxes())
