"""A ConvNeXt block: depthwise convolution, layer norm over channels by hand, layer scale, a skip in place."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.up = nn.Conv2d(dim, 4 * dim, 1)
        self.down = nn.Conv2d(4 * dim, dim, 1)
        self.gamma = nn.Parameter(1e-1 * torch.ones(dim))
        self.drop = nn.Dropout(0.1, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.dwconv(x)
        u = h.mean(1, keepdim=True)
        s = (h - u).pow(2).mean(1, keepdim=True)
        h = (h - u) / torch.sqrt(s + 1e-6)
        h = self.weight[:, None, None] * h + self.bias[:, None, None]
        h = self.down(F.gelu(self.up(h)))
        h = self.gamma[:, None, None] * h
        h = self.drop(h)
        h += x
        return h


model = Block()
inputs = (torch.randn(2, 8, 8, 8),)
