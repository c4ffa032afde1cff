"""Filter response normalisation with a thresholded linear unit, weight standardisation before it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class WSConv(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        mean = weight.mean(dim=1, keepdim=True).mean(dim=2, keepdim=True).mean(dim=3, keepdim=True)
        weight = weight - mean
        std = weight.view(weight.size(0), -1).std(dim=1).view(-1, 1, 1, 1) + 1e-5
        weight = weight / std.expand_as(weight)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class FRN(nn.Module):
    def __init__(self, c: int = 5) -> None:
        super().__init__()
        self.conv = WSConv(3, c, 3, padding=1)
        self.tau = nn.Parameter(torch.full((1, c, 1, 1), -1.0))
        self.beta = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.gamma = nn.Parameter(torch.ones(1, c, 1, 1))
        self.eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        nu2 = torch.mean(x**2, dim=[2, 3], keepdim=True)
        x = x * torch.rsqrt(nu2 + abs(self.eps))
        return torch.max(self.gamma * x + self.beta, self.tau)


model = FRN()
inputs = (torch.randn(2, 3, 6, 6),)
