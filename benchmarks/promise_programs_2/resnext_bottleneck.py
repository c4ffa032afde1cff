"""A bottleneck with grouped convolutions, squeeze and excitation, in place as torchvision has it."""

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    def __init__(self, inplanes: int = 4, planes: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, groups=2, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, inplanes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(inplanes)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        identity = x

        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)

        out = self.conv2(out)
        out = self.bn2(out)
        out = self.relu(out)

        out = self.conv3(out)
        out = self.bn3(out)

        out += identity
        return self.relu(out)


model = nn.Sequential(Bottleneck(), Bottleneck())
inputs = (torch.randn(2, 4, 6, 6),)
