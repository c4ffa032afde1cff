"""Coordinate attention with the hard activations of its paper, and a drop path."""

import torch
from torch import Tensor, nn


class HSigmoid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU6(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(x + 3) / 6


class HSwish(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sigmoid = HSigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.sigmoid(x)


class CoordAtt(nn.Module):
    def __init__(self, dim: int = 8, hidden: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(dim, hidden, 1)
        self.bn1 = nn.BatchNorm2d(hidden)
        self.act = HSwish()
        self.conv_h = nn.Conv2d(hidden, dim, 1)
        self.conv_w = nn.Conv2d(hidden, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        _, _, h, w = x.size()
        x_h = x.mean(3, keepdim=True)
        x_w = x.mean(2, keepdim=True).permute(0, 1, 3, 2)
        y = self.act(self.bn1(self.conv1(torch.cat([x_h, x_w], dim=2))))
        x_h, x_w = torch.split(y, [h, w], dim=2)
        x_w = x_w.permute(0, 1, 3, 2)
        a_h = self.conv_h(x_h).sigmoid()
        a_w = self.conv_w(x_w).sigmoid()
        return x * a_w * a_h


model = CoordAtt()
inputs = (torch.randn(2, 8, 6, 6),)
