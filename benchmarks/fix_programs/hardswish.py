"""Convolution, batch norm and Hardswish, as in MobileNetV3; inference."""

import torch
from torch import nn

torch.manual_seed(0)


def layer(channels):
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.Hardswish(inplace=True),
    )


model = nn.Sequential(layer(8), layer(8), layer(8)).eval()
inputs = (torch.randn(4, 8, 16, 16),)
