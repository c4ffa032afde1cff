"""Squeeze and excite with a sigmoid gate in place."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reduce = nn.Linear(4, 2)
        self.expand = nn.Linear(2, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.adaptive_avg_pool2d(x, 1).flatten(1)
        gate = self.expand(self.act(self.reduce(pooled)))
        gate = (gate + 0.5).sigmoid_()
        y = x * gate[:, :, None, None]
        y = F.relu(y + 0.1, inplace=True)
        return y.mul_(1.5)


model = SqueezeExcite()
inputs = (torch.randn(2, 4, 5, 5),)
