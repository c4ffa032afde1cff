"""Focal loss of a dense detector."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(logits: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1.0 - p) * (1.0 - target)
    weight = (1.0 - p_t).square()
    alpha = 0.25 * target + 0.75 * (1 - target)
    loss = alpha * weight * ce
    loss[target < 0] = 0.0
    return loss.mean()


inputs = (torch.randn(6, 9, requires_grad=True), (torch.rand(6, 9) > 0.7).float())
