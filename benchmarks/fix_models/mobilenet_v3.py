"""torchvision's mobilenet_v3_large written by hand, with fewer channels; inference."""

import torch
from torch import nn

torch.manual_seed(0)

TABLE = (
    (3, 2, 2, False, "RE", 1),
    (3, 8, 3, False, "RE", 2),
    (3, 9, 3, False, "RE", 1),
    (5, 9, 5, True, "RE", 2),
    (5, 15, 5, True, "RE", 1),
    (5, 15, 5, True, "RE", 1),
    (3, 30, 10, False, "HS", 2),
    (3, 25, 10, False, "HS", 1),
    (3, 23, 10, False, "HS", 1),
    (3, 23, 10, False, "HS", 1),
    (3, 60, 14, True, "HS", 1),
    (3, 84, 14, True, "HS", 1),
    (5, 84, 20, True, "HS", 2),
    (5, 120, 20, True, "HS", 1),
    (5, 120, 20, True, "HS", 1),
)


def conv(before, after, kernel, stride=1, groups=1, act=None):
    parts = [
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    ]
    return nn.Sequential(*parts, *([act(inplace=True)] if act is not None else []))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, max(channels // 4, 1), 1)
        self.fc2 = nn.Conv2d(max(channels // 4, 1), channels, 1)
        self.activation = nn.ReLU()
        self.scale_activation = nn.Hardsigmoid()

    def forward(self, x):
        scale = self.activation(self.fc1(self.avgpool(x)))
        return self.scale_activation(self.fc2(scale)) * x


class InvertedResidual(nn.Module):
    def __init__(self, before, kernel, inner, after, se, act, stride):
        super().__init__()
        self.adds = stride == 1 and before == after
        act = nn.Hardswish if act == "HS" else nn.ReLU
        parts = [conv(before, inner, 1, act=act), conv(inner, inner, kernel, stride, inner, act)]
        if se:
            parts.append(SqueezeExcitation(inner))
        self.block = nn.Sequential(*parts, conv(inner, after, 1))

    def forward(self, x):
        result = self.block(x)
        if self.adds:
            result += x
        return result


def mobilenet_v3():
    parts, channels = [conv(3, 2, 3, 2, act=nn.Hardswish)], 2
    for kernel, inner, after, se, act, stride in TABLE:
        parts.append(InvertedResidual(channels, kernel, inner, after, se, act, stride))
        channels = after
    parts += [conv(channels, 120, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
    return nn.Sequential(*parts, nn.Linear(120, 160), nn.Hardswish(inplace=True), nn.Linear(160, 10))


model = mobilenet_v3().eval()
inputs = (torch.randn(2, 3, 32, 32),)
