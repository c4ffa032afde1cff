"""Group normalisation, weight standardisation and response normalisation by hand."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Norms(nn.Module):
    def __init__(self, channels: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.kernel = nn.Parameter(torch.randn(channels, channels, 3, 3) * 0.1)
        self.gamma = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def group_norm(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        x = x.view(n, self.groups, -1)
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True)
        x = (x - mean) / (var + 1e-5).sqrt()
        return x.view(n, c, h, w) * self.weight + self.bias

    def forward(self, x: Tensor) -> Tensor:
        weight = self.kernel
        mean = weight.mean(dim=[1, 2, 3], keepdim=True)
        weight = weight - mean
        std = weight.view(weight.size(0), -1).std(dim=1).view(-1, 1, 1, 1) + 1e-5
        weight = weight / std.expand_as(weight)
        x = F.conv2d(F.relu6(self.group_norm(x)), weight, padding=1)
        gx = torch.norm(x, p=2, dim=(2, 3), keepdim=True)
        nx = gx / (gx.mean(dim=1, keepdim=True) + 1e-6)
        return self.gamma * (x * nx) + x


model = Norms()
inputs = (torch.randn(2, 4, 5, 5),)
