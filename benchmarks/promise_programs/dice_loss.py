"""Dice loss of a segmentation, with ignored pixels."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(logits: Tensor, mask: Tensor, ignored: Tensor) -> Tensor:
    p = F.hardsigmoid(logits * 2.0)
    p = p.masked_fill(ignored, 0.0)
    target = mask.to(p.dtype)
    target = target.masked_fill(ignored, 0.0)
    both = (p * target).flatten(1).sum(1)
    total = p.square().flatten(1).sum(1) + target.flatten(1).sum(1)
    dice = (2.0 * both + 1.0) / (total + 1.0)
    return 1.0 - dice


inputs = (
    torch.randn(2, 1, 5, 5, requires_grad=True),
    torch.rand(2, 1, 5, 5) > 0.5,
    torch.rand(2, 1, 5, 5) > 0.9,
)
