"""A residual block of WaveNet with conditioning, skip connections and mu-law companding of the input."""

import math

import torch
from torch import Tensor, nn


class WaveNetBlock(nn.Module):
    def __init__(self, dim: int = 6, dilation: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, dim, 1)
        self.dilated = nn.Conv1d(dim, 2 * dim, 3, padding=dilation, dilation=dilation)
        self.cond = nn.Conv1d(4, 2 * dim, 1)
        self.res = nn.Conv1d(dim, dim, 1)
        self.skip = nn.Conv1d(dim, dim, 1)

    def forward(self, wave: Tensor, cond: Tensor) -> tuple[Tensor, Tensor]:
        mu = 255.0
        wave = torch.sign(wave) * torch.log1p(mu * torch.abs(wave)) / math.log1p(mu)
        x = self.first(wave)
        residual = x
        x = self.dilated(x)
        x += self.cond(cond)
        a, b = x.split(x.size(1) // 2, dim=1)
        x = torch.tanh(a) * torch.sigmoid(b)
        skip = self.skip(x)
        x = self.res(x)
        x = (x + residual) * math.sqrt(0.5)
        return x, skip


model = WaveNetBlock()
inputs = (torch.rand(2, 1, 16) * 2 - 1, torch.randn(2, 4, 16))
