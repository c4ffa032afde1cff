"""A layer of StyleGAN: noise, leaky ReLU with gain, adaptive instance norm, clamp."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class StyledConv(nn.Module):
    def __init__(self, channels: int = 4, style: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.noise_strength = nn.Parameter(torch.full([], 0.1))
        self.affine = nn.Linear(style, channels * 2)

    def forward(self, x: Tensor, w: Tensor, noise: Tensor) -> Tensor:
        x = self.conv(x)
        x = x.add_(noise * self.noise_strength)
        x = F.leaky_relu(x, 0.2) * 1.4142135623730951
        style = self.affine(w).unsqueeze(2).unsqueeze(3)
        gamma, beta = style.chunk(2, 1)
        mean = x.mean(dim=[2, 3], keepdim=True)
        var = x.var(dim=[2, 3], keepdim=True, unbiased=False)
        x = (x - mean) / torch.sqrt(var + 1e-8)
        x = x * (gamma + 1) + beta
        return x.clamp_(-256, 256)


model = StyledConv()
inputs = (torch.randn(2, 4, 5, 5), torch.randn(2, 6), torch.randn(2, 1, 5, 5))
