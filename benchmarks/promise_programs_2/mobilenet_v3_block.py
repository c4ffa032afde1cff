"""A block of MobileNetV3 with Hardswish and Hardsigmoid modules in place."""

import torch
from torch import Tensor, nn


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeeze: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeeze, 1)
        self.fc2 = nn.Conv2d(squeeze, channels, 1)
        self.activation = nn.ReLU()
        self.scale_activation = nn.Hardsigmoid()

    def _scale(self, input: Tensor) -> Tensor:
        scale = self.avgpool(input)
        scale = self.fc1(scale)
        scale = self.activation(scale)
        scale = self.fc2(scale)
        return self.scale_activation(scale)

    def forward(self, input: Tensor) -> Tensor:
        scale = self._scale(input)
        return scale * input


class Block(nn.Module):
    def __init__(self, c: int = 4, expanded: int = 8) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(c, expanded, 1, bias=False),
            nn.BatchNorm2d(expanded),
            nn.Hardswish(inplace=True),
            nn.Conv2d(expanded, expanded, 3, padding=1, groups=expanded, bias=False),
            nn.BatchNorm2d(expanded),
            nn.Hardswish(inplace=True),
            SqueezeExcitation(expanded, 4),
            nn.Conv2d(expanded, c, 1, bias=False),
            nn.BatchNorm2d(c),
        )

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        result += input
        return result


model = Block()
inputs = (torch.randn(2, 4, 5, 5),)
