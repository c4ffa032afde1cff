"""torchvision's ResNet blocks: one ReLU for all, a shortcut that may be the input."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    def __init__(self, planes: int, downsample: Optional[nn.Module] = None, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(planes, planes, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class PreActBlock(nn.Module):
    def __init__(self, planes: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(planes), nn.BatchNorm2d(planes)
        self.conv1 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(x), inplace=True)
        shortcut = out
        out = self.conv1(out)
        out = self.conv2(F.relu_(self.bn2(out)))
        out += shortcut
        return out


class ResNet(nn.Module):
    def __init__(self, planes: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, planes, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        down = nn.Sequential(nn.Conv2d(planes, planes, 1, 2, bias=False), nn.BatchNorm2d(planes))
        self.layer1 = nn.Sequential(BasicBlock(planes), BasicBlock(planes, down, 2))
        self.layer2 = PreActBlock(planes)
        self.fc = nn.Linear(planes, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        features: list[Tensor] = []
        x = self.relu(self.bn1(self.conv1(x)))
        for block in self.layer1:
            x = block(x)
            features.append(x)
        x = self.layer2(x)
        x = F.hardtanh_(x, -2.0, 2.0)
        pooled = x.mean([2, 3])
        pooled = pooled / pooled.norm(p=2, dim=1, keepdim=True).clamp_min(1e-6)
        return self.fc(pooled) * 4.0, features


model = ResNet()
inputs = (torch.randn(2, 3, 6, 6),)
