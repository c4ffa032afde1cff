"""Res2Net's split of the width with a running sum, HRNet's exchange between resolutions, ECA, involution."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ECA(nn.Module):
    def __init__(self, k: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 1, k, padding=k // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = x.mean((2, 3)).view(x.shape[0], 1, -1)
        y = self.conv(y)
        y = y.view(x.shape[0], -1, 1, 1).sigmoid()
        return x * y.expand_as(x)


class Bottle2neck(nn.Module):
    def __init__(self, planes: int = 8, scale: int = 4, stage: bool = False) -> None:
        super().__init__()
        self.width, self.is_first = planes // scale, stage
        self.conv1, self.bn1 = nn.Conv2d(planes, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.convs = nn.ModuleList(
            [nn.Conv2d(self.width, self.width, 3, padding=1, bias=False) for _ in range(scale - 1)]
        )
        self.bns = nn.ModuleList([nn.BatchNorm2d(self.width) for _ in range(scale - 1)])
        self.pool = nn.AvgPool2d(3, stride=1, padding=1)
        self.conv3, self.bn3 = nn.Conv2d(planes, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.se = ECA()

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        out = self.relu(self.bn1(self.conv1(x)))
        spx = torch.split(out, self.width, 1)
        spo: list[Tensor] = []
        sp = spx[0]
        for i, (conv, bn) in enumerate(zip(self.convs, self.bns)):
            if i == 0 or self.is_first:
                sp = spx[i]
            else:
                sp = sp + spx[i]
            sp = self.relu(bn(conv(sp)))
            spo.append(sp)
        if self.is_first:
            spo.append(self.pool(spx[-1]))
        else:
            spo.append(spx[-1])
        out = self.bn3(self.conv3(torch.cat(spo, 1)))
        out = self.se(out)
        out += shortcut
        return self.relu(out)


class Involution(nn.Module):
    def __init__(self, channels: int, kernel: int = 3, groups: int = 2) -> None:
        super().__init__()
        self.kernel, self.groups = kernel, groups
        self.reduce = nn.Conv2d(channels, channels // 2, 1)
        self.span = nn.Conv2d(channels // 2, kernel * kernel * groups, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        weight = self.span(F.relu(self.reduce(x), inplace=True))
        weight = weight.view(b, self.groups, self.kernel * self.kernel, h, w).unsqueeze(2)
        out = F.unfold(x, self.kernel, padding=self.kernel // 2)
        out = out.view(b, self.groups, c // self.groups, self.kernel * self.kernel, h, w)
        return (weight * out).sum(dim=3).view(b, c, h, w)


class Exchange(nn.Module):
    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.high, self.low = Bottle2neck(channels, stage=True), Bottle2neck(channels)
        self.down = nn.Sequential(
            nn.Conv2d(channels, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels)
        )
        self.up = nn.Sequential(nn.Conv2d(channels, channels, 1, bias=False), nn.BatchNorm2d(channels))
        self.involution = Involution(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, xs: list[Tensor]) -> list[Tensor]:
        ys = [self.high(xs[0]), self.low(xs[1])]
        fused: list[Tensor] = []
        y = ys[0]
        y = y + F.interpolate(self.up(ys[1]), scale_factor=2.0, mode="bilinear", align_corners=True)
        fused.append(self.relu(y))
        y = self.down(ys[0])
        y += ys[1]
        y += self.involution(ys[1])
        fused.append(self.relu(y))
        return fused


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.exchange = Exchange()
        self.head = nn.Linear(16, 5)

    def forward(self, high: Tensor, low: Tensor) -> Tensor:
        out = self.exchange([high, low])
        pooled = torch.cat([o.mean((2, 3)) for o in out], dim=1)
        return self.head(F.dropout(pooled, 0.0, self.training))


model = Net()
inputs = (torch.randn(2, 8, 4, 4), torch.randn(2, 8, 2, 2))
