"""The discriminator of a GAN, with spectral scale and LeakyReLU in place."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.second = nn.Conv2d(4, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(16, 1)

    def forward(self, image: Tensor) -> Tensor:
        h = F.leaky_relu(self.first(image), 0.2, inplace=True)
        noise = h.abs().clamp_min(1e-3)
        h = h / noise.sqrt()
        h = F.leaky_relu(self.norm(self.second(h)), 0.2, inplace=True)
        score = self.out(h.flatten(1))
        return F.softplus(-score).clamp_min(0.01) * 0.5


model = Discriminator()
inputs = (torch.randn(2, 3, 7, 7),)
