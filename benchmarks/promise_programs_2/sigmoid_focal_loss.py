"""Focal loss of logits with class weights and masking of ignored targets."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(logits: Tensor, targets: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    valid = targets >= 0
    t = targets.clamp(min=0).float()
    ce_loss = F.binary_cross_entropy_with_logits(logits, t, reduction="none")
    p_t = p * t + (1 - p) * (1 - t)
    loss = ce_loss * ((1 - p_t) ** 2.0)
    alpha_t = 0.25 * t + (1 - 0.25) * (1 - t)
    loss = alpha_t * loss
    loss[~valid] = 0.0
    return loss.sum() / valid.sum().clamp(min=1)


inputs = (torch.randn(6, 5, requires_grad=True), torch.randint(-1, 2, (6, 5)))
