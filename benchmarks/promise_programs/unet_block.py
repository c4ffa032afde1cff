"""A residual block of a diffusion U-Net with a time embedding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(2, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(6, channels)
        self.norm2 = nn.GroupNorm(2, channels)
        self.drop = nn.Dropout(0.0)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        shift = self.time(F.silu(t))
        h += shift.unsqueeze(-1).unsqueeze(-1)
        h = self.norm2(h)
        h = self.conv2(self.drop(self.act(h)))
        return (x + h) / 1.4142135


model = Block()
inputs = (torch.randn(2, 4, 5, 5), torch.randn(2, 6))
