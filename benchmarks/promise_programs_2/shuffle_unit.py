"""A unit of ShuffleNet: two branches, channels shuffled."""

import torch
from torch import Tensor, nn


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    batchsize, num_channels, height, width = x.size()
    channels_per_group = num_channels // groups
    x = x.view(batchsize, groups, channels_per_group, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batchsize, num_channels, height, width)


class InvertedResidual(nn.Module):
    def __init__(self, features: int = 4) -> None:
        super().__init__()
        self.branch2 = nn.Sequential(
            nn.Conv2d(features, features, 1, bias=False),
            nn.BatchNorm2d(features),
            nn.ReLU(inplace=True),
            nn.Conv2d(features, features, 3, padding=1, groups=features, bias=False),
            nn.BatchNorm2d(features),
            nn.Conv2d(features, features, 1, bias=False),
            nn.BatchNorm2d(features),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        x1, x2 = x.chunk(2, dim=1)
        out = torch.cat((x1, self.branch2(x2)), dim=1)
        return channel_shuffle(out, 2)


model = nn.Sequential(InvertedResidual(), InvertedResidual())
inputs = (torch.randn(2, 8, 5, 5),)
