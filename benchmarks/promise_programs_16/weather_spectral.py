"""A weather model's loss: weights by latitude and level, power spectra, a limited moisture, a rollout."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Stepper(nn.Module):
    def __init__(self, channels: int = 3, lat: int = 6, rollout: int = 2, spectral: float = 0.1) -> None:
        super().__init__()
        self.rollout, self.spectral = rollout, spectral
        self.conv1, self.conv2 = nn.Conv2d(channels + 1, 6, 3), nn.Conv2d(6, channels, 1)
        angles = torch.linspace(-math.pi / 2 + 0.2, math.pi / 2 - 0.2, lat)
        weight = torch.cos(angles)
        self.register_buffer("latitude", (weight / weight.mean()).view(-1, 1))
        self.register_buffer("mean", torch.tensor([0.1, 0.0, 0.3]).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor([1.1, 0.9, 0.5]).view(-1, 1, 1))
        self.level = nn.Parameter(torch.zeros(channels))

    def pad(self, x: Tensor) -> Tensor:
        x = F.pad(x, [1, 1, 0, 0], mode="circular")
        return F.pad(x, [0, 0, 1, 1], mode="replicate")

    def spectrum(self, x: Tensor) -> Tensor:
        f = torch.fft.rfft(x, dim=-1, norm="ortho")
        power = f.real**2 + f.imag**2
        power[..., 1:-1] *= 2.0
        return torch.log(power.mean(-2) + 1e-6)

    def step(self, x: Tensor, sun: Tensor) -> Tensor:
        normed = (x - self.mean) / self.std
        h = self.conv1(self.pad(torch.cat([normed, sun], dim=1)))
        h = h * torch.sigmoid(1.702 * h)
        x = x + self.conv2(h) * self.std
        wind, moisture = x[:, :2], x[:, 2:]
        moisture = torch.where(moisture < 0, 0.01 * moisture, moisture)
        return torch.cat([wind, moisture], dim=1)

    def forward(self, x: Tensor, sun: Tensor, truth: Tensor, land: Tensor) -> tuple[Tensor, list[Tensor]]:
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        level = F.softmax(self.level, dim=0) * self.level.size(0)
        scores: list[Tensor] = []
        for k in range(self.rollout):
            x = self.step(x, sun[:, k : k + 1])
            error = (x - truth[:, k]) / self.std
            error = torch.where(land, error, 0.5 * error)
            squared = error.pow(2) * self.latitude * level.view(-1, 1, 1)
            mse = squared.mean(dim=(-2, -1))
            scores.append(mse.detach().sqrt())
            gap = (self.spectrum(x) - self.spectrum(truth[:, k])).abs().mean()
            loss = mse.mean()
            if self.spectral > 0:
                loss += self.spectral * gap
            total += loss * 0.9**k
        total /= self.rollout
        return total, scores


model = Stepper()
inputs = (
    torch.randn(2, 3, 6, 8),
    torch.rand(2, 2, 6, 8),
    torch.randn(2, 2, 3, 6, 8),
    torch.rand(6, 8) > 0.5,
)
