"""A ghost bottleneck with EvoNorm, hard-swish by hand and a squeeze with hard sigmoid."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EvoNorm(nn.Module):
    def __init__(self, c: int, groups: int = 2) -> None:
        super().__init__()
        self.groups = groups
        self.gamma = nn.Parameter(torch.ones(1, c, 1, 1))
        self.beta = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.v = nn.Parameter(torch.ones(1, c, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.size()
        grouped = x.view(n, self.groups, c // self.groups, h, w)
        var = torch.var(grouped, dim=(2, 3, 4), keepdim=True).expand_as(grouped)
        std = torch.sqrt(var + 1e-5).reshape(n, c, h, w)
        num = x * torch.sigmoid(self.v * x)
        return num / std * self.gamma + self.beta


class Ghost(nn.Module):
    def __init__(self, c: int = 4) -> None:
        super().__init__()
        self.primary = nn.Conv2d(c, c, 1, bias=False)
        self.cheap = nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False)
        self.norm = EvoNorm(2 * c)
        self.reduce = nn.Conv2d(2 * c, 2, 1)
        self.expand = nn.Conv2d(2, 2 * c, 1)
        self.project = nn.Conv2d(2 * c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.primary(x)
        a = a * F.relu6(a + 3.0, inplace=True) / 6.0
        y = torch.cat([a, self.cheap(a)], 1)
        y = self.norm(y)
        s = F.adaptive_avg_pool2d(y, 1)
        s = F.hardsigmoid(self.expand(F.relu_(self.reduce(s))))
        y = self.project(y * s)
        y += x
        return y


model = Ghost()
inputs = (torch.randn(2, 4, 6, 6),)
