"""Reparameterised sample of a variational autoencoder and its divergence."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
    log_variance = log_variance.clamp(-6.0, 4.0)
    std = torch.exp(0.5 * log_variance)
    z = mean + noise * std
    divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp())
    smooth = F.softsign(z)
    smooth[noise > 2.0] = 1.0
    return smooth.sum(1) + divergence.sum(1)


inputs = (
    torch.randn(4, 6, requires_grad=True),
    torch.randn(4, 6, requires_grad=True),
    torch.randn(4, 6),
)
