"""EfficientNet's MBConv and MobileNetV3's tail: SiLU and Hardswish in place, a gate."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def stochastic_depth(x: Tensor, p: float, mode: str, training: bool) -> Tensor:
    if not training or p == 0.0:
        return x
    survival = 1.0 - p
    size = [x.shape[0]] + [1] * (x.ndim - 1) if mode == "row" else [1] * x.ndim
    noise = torch.empty(size, dtype=x.dtype, device=x.device)
    noise = noise.bernoulli_(survival)
    if survival > 0.0:
        noise.div_(survival)
    return x * noise


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeeze: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeeze, 1)
        self.fc2 = nn.Conv2d(squeeze, channels, 1)
        self.activation = nn.SiLU(inplace=True)
        self.scale_activation = nn.Hardsigmoid(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.avgpool(x)
        scale = self.activation(self.fc1(scale))
        scale = self.scale_activation(self.fc2(scale))
        return scale * x


class MBConv(nn.Module):
    def __init__(self, channels: int, expand: int, p: float) -> None:
        super().__init__()
        wide = channels * expand
        self.expand = nn.Conv2d(channels, wide, 1, bias=False)
        self.bn0 = nn.BatchNorm2d(wide, eps=1e-3)
        self.depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False)
        self.bn1 = nn.BatchNorm2d(wide, eps=1e-3)
        self.se = SqueezeExcitation(wide, 2)
        self.project = nn.Conv2d(wide, channels, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels, eps=1e-3)
        self.act = nn.SiLU(inplace=True)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        out = self.act(self.bn0(self.expand(x)))
        out = self.act(self.bn1(self.depthwise(out)))
        out = self.bn2(self.project(self.se(out)))
        out = stochastic_depth(out, self.p, "row", self.training)
        out += x
        return out


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([MBConv(3, 2, p) for p in (0.0, 0.2)])
        self.tail = nn.Sequential(nn.Linear(3, 8), nn.Hardswish(inplace=True), nn.Dropout(0.0, inplace=True))
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x.sub(0.5).div_(0.25)
        for block in self.blocks:
            x = block(x)
        x = F.hardswish(x, inplace=True)
        x = x.mean([2, 3])
        logits = self.out(self.tail(x))
        logits /= 1.5
        return logits


model = Net()
inputs = (torch.rand(2, 3, 6, 6),)
