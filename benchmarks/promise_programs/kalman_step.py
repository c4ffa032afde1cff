"""Prediction and update of a diagonal Kalman filter."""

import torch
from torch import Tensor


def model(mean: Tensor, variance: Tensor, seen: Tensor, valid: Tensor) -> Tensor:
    mean = mean * 0.98
    variance = variance * 0.9604 + 0.05
    residual = seen - mean
    total = variance + 0.2
    gain = variance / total
    gain = gain.masked_fill(~valid, 0.0)
    mean = torch.addcmul(mean, gain, residual)
    variance = (1 - gain) * variance
    score = -0.5 * (residual.square() / total + total.log())
    return torch.stack([mean, variance, score])


inputs = (
    torch.randn(5, 4, requires_grad=True),
    torch.rand(5, 4) + 0.5,
    torch.randn(5, 4),
    torch.rand(5, 4) > 0.3,
)
