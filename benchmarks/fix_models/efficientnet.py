"""MBConv blocks as in torchvision's efficientnet_b0, written by hand; training."""

import torch
from torch import nn

torch.manual_seed(0)


class MBConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = 4 * channels
        self.expand = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.SiLU(inplace=True)
        )
        self.depth = nn.Sequential(
            nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.SiLU(inplace=True),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(inner, channels, 1)
        self.act = nn.SiLU(inplace=True)
        self.fc2 = nn.Conv2d(channels, inner, 1)
        self.project = nn.Sequential(nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.depth(self.expand(x))
        y = torch.sigmoid(self.fc2(self.act(self.fc1(self.pool(y))))) * y
        y = self.project(y)
        y += x
        return y


model = nn.Sequential(*[MBConv(4) for _ in range(4)])
inputs = (torch.randn(2, 4, 16, 16),)
