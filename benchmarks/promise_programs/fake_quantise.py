"""Fake quantisation with a straight-through estimator."""

import torch
from torch import Tensor, nn


class FakeQuantise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.1))
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        scaled = x / self.scale.clamp_min(1e-4)
        limited = scaled.clamp(-8.0, 7.0)
        rounded = torch.round(limited)
        ste = limited + (rounded - limited).detach()
        y = self.linear(ste * self.scale)
        q = torch.floor(y * 16.0 + 0.5).clamp_(-128.0, 127.0)
        return (q - y * 16.0).detach() / 16.0 + y


model = FakeQuantise()
inputs = (torch.randn(4, 6),)
