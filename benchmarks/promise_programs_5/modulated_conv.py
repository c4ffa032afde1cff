"""A modulated convolution of StyleGAN2 with demodulation, noise and its scaled activation."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class StyledConv(nn.Module):
    def __init__(self, dim: int = 4, out: int = 6, style: int = 8) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, out, dim, 3, 3))
        self.modulation = nn.Linear(style, dim)
        self.noise = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1, out, 1, 1))
        self.scale = 1 / math.sqrt(dim * 9)
        self.out = out

    def forward(self, x: Tensor, style: Tensor, noise: Tensor) -> Tensor:
        batch, dim, height, width = x.shape
        style = style * torch.rsqrt(torch.mean(style**2, dim=1, keepdim=True) + 1e-8)
        s = self.modulation(style).view(batch, 1, dim, 1, 1)
        weight = self.scale * self.weight * s
        demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)
        weight = weight * demod.view(batch, self.out, 1, 1, 1)
        weight = weight.view(batch * self.out, dim, 3, 3)
        y = F.conv2d(x.reshape(1, batch * dim, height, width), weight, padding=1, groups=batch)
        y = y.view(batch, self.out, height, width)
        y = y + self.noise * noise
        return F.leaky_relu(y + self.bias, negative_slope=0.2) * math.sqrt(2)


model = StyledConv()
inputs = (torch.randn(2, 4, 6, 6), torch.randn(2, 8), torch.randn(2, 1, 6, 6))
