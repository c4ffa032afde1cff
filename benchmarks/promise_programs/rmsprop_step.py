"""One step of centred RMSprop with momentum kept by a module."""

import torch
from torch import Tensor, nn


class RMSprop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("square", torch.ones(4, 6))
        self.register_buffer("mean", torch.zeros(4, 6))

    def forward(self, p: Tensor, grad: Tensor) -> Tensor:
        grad = grad.clamp(-1.0, 1.0)
        self.square.mul_(0.99).add_(grad * grad * 0.01)
        self.mean.mul_(0.99).add_(grad * 0.01)
        spread = self.square - self.mean * self.mean
        step = grad / (spread.sqrt() + 1e-8)
        step *= 0.01
        return p - step - 0.001 * p


model = RMSprop()
inputs = (torch.randn(4, 6), torch.randn(4, 6))
