"""Predictions of one scale of a YOLO head with a Final stride."""

from typing import Final

import torch
from torch import Tensor, nn


class Head(nn.Module):
    stride: Final[int]

    def __init__(self, stride: int = 8) -> None:
        super().__init__()
        self.stride = stride
        self.conv = nn.Conv2d(3, 7, 1)

    def forward(self, x: Tensor, grid: Tensor) -> Tensor:
        raw = self.conv(x).permute(0, 2, 3, 1)
        y = torch.sigmoid(raw)
        y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + grid) * self.stride
        y[..., 2:4] = (y[..., 2:4] * 2).square() * self.stride
        score = y[..., 4:5] * y[..., 5:]
        return torch.cat([y[..., :4], score], -1)


model = Head()
inputs = (torch.randn(1, 3, 4, 4), torch.rand(1, 4, 4, 2))
