"""Sub-pixel upsampling with PReLU and a residual of the input."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Upsample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.act = nn.PReLU()
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        low = (x - 0.5) * 2.0
        h = self.act(self.conv(low) + 0.1)
        h = self.shuffle(h * 0.2)
        base = F.interpolate(low, scale_factor=2.0, mode="nearest")
        out = base + h
        return torch.clip(out * 0.5 + 0.5, 0.0, 1.0)


model = Upsample()
inputs = (torch.rand(2, 1, 5, 5),)
