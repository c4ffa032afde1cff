"""An inverted residual block with Hardswish and squeeze-excite."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class InvertedResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Conv2d(3, 6, 1)
        self.norm = nn.BatchNorm2d(6)
        self.act = nn.Hardswish(inplace=True)
        self.depth = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.squeeze = nn.Conv2d(6, 6, 1)
        self.project = nn.Conv2d(6, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.expand(x)))
        y = self.act(self.depth(y))
        scale = F.hardsigmoid(self.squeeze(y.mean((2, 3), keepdim=True)), inplace=True)
        y = self.project(y * scale)
        y += x
        return y


model = InvertedResidual()
inputs = (torch.randn(2, 3, 5, 5),)
