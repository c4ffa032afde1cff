"""The residual block of a diffusion model: group norm, SiLU, convolution, with a shift by an embedding."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, channels: int, embedded: int) -> None:
        super().__init__()
        self.first = nn.GroupNorm(4, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.shift = nn.Linear(embedded, 2 * channels)
        self.second = nn.GroupNorm(4, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.act = nn.SiLU()

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        hidden = self.conv1(self.act(self.first(x)))
        scale, shift = self.shift(self.act(embedding))[:, :, None, None].chunk(2, 1)
        hidden = self.second(hidden) * (1 + scale) + shift
        return x + self.conv2(self.act(hidden))


torch.manual_seed(0)
model = Block(16, 24)
inputs = (torch.randn(2, 16, 12, 12), torch.randn(2, 24))
