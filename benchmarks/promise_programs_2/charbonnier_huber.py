"""A robust regression loss: Charbonnier, Huber by indices, quantile by max."""

import torch
from torch import Tensor


def model(pred: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    diff = pred - target
    charbonnier = torch.sqrt(diff.pow(2) + 1e-6)
    abs_diff = diff.abs()
    huber = abs_diff - 0.5
    small = abs_diff < 1.0
    huber[small] = 0.5 * diff[small] ** 2
    quantile = torch.max(0.9 * diff, -0.1 * diff)
    log_cosh = diff + torch.nn.functional.softplus(-2.0 * diff) - 0.6931
    loss = charbonnier.mul(0.5).add_(huber).add_(quantile, alpha=0.25).addcmul_(log_cosh, weight, value=0.1)
    return loss.mean(-1)


inputs = (torch.randn(6, 7, requires_grad=True), torch.randn(6, 7), torch.rand(6, 7))
