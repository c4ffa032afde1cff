"""Focal loss with logits, ignored labels and a weight for each class."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    ignored = target < 0
    label = target.clamp(min=0)
    logp = F.logsigmoid(logits)
    logq = F.logsigmoid(-logits)
    p = logits.sigmoid()
    loss = -(label * (1 - p).pow(2) * logp * 0.25 + (1 - label) * p.pow(2) * logq * 0.75)
    loss = loss * weight
    loss[ignored] = 0.0
    return loss.sum() / (~ignored).sum().clamp_min(1)


inputs = (
    torch.randn(8, 5, requires_grad=True),
    torch.randint(-1, 2, (8, 5)).float(),
    torch.rand(5) + 0.5,
)
