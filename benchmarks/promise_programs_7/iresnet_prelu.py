"""A block of a face recogniser, with two PReLU, a stem with a third, and features of unit length."""

import torch
from torch import Tensor, nn


class IBasicBlock(nn.Module):
    def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inplanes, eps=1e-05)
        self.conv1 = nn.Conv2d(inplanes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes, eps=1e-05)
        self.prelu = nn.PReLU(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes, eps=1e-05)
        self.downsample = nn.Sequential(
            nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes, eps=1e-05)
        )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.bn1(x)
        out = self.conv1(out)
        out = self.bn2(out)
        out = self.prelu(out)
        out = self.conv2(out)
        out = self.bn3(out)
        identity = self.downsample(x)
        out += identity
        return out


class IResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4, eps=1e-05)
        self.prelu = nn.PReLU(4)
        self.layer1 = IBasicBlock(4, 8, 2)
        self.layer2 = IBasicBlock(8, 8, 1)
        self.bn2 = nn.BatchNorm2d(8, eps=1e-05)
        self.dropout = nn.Dropout(p=0.0, inplace=True)
        self.fc = nn.Linear(8 * 4 * 4, 6)
        self.features = nn.BatchNorm1d(6, eps=1e-05)

    def forward(self, x: Tensor) -> Tensor:
        x = self.prelu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        x = self.bn2(x)
        x = torch.flatten(x, 1)
        x = self.dropout(x)
        x = self.features(self.fc(x))
        norm = torch.norm(x, 2, 1, True)
        return torch.div(x, norm)


model = IResNet()
inputs = (torch.randn(2, 3, 8, 8),)
