"""Shallow water on a staggered grid: reflecting walls, limiters, wetting, RK2, a learned friction."""

from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def minmod(a: Tensor, b: Tensor) -> Tensor:
    same = (a * b > 0).to(a.dtype)
    return same * torch.sign(a) * torch.min(a.abs(), b.abs())


def van_leer(a: Tensor, b: Tensor) -> Tensor:
    product = a * b
    slope = 2.0 * product / (a + b + 1e-12 * torch.sign(a + b))
    slope[product <= 0] = 0.0
    return slope


class Friction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Conv2d(6, 1, 1)

    def forward(self, h: Tensor, u: Tensor, v: Tensor) -> Tensor:
        x = torch.stack([h, u, v], dim=1)
        x = F.softplus(self.norm(self.conv(x)))
        return self.out(x).squeeze(1).sigmoid_() * 0.1


class ShallowWater(nn.Module):
    def __init__(self, gravity: float = 9.81, dx: float = 1.0, dt: float = 0.02) -> None:
        super().__init__()
        self.gravity, self.dx, self.dt, self.dry, self.coriolis = gravity, dx, dt, 1e-3, 0.01
        self.friction = Friction()
        self.limiter = "minmod"

    def walls(self, u: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
        u, v = u.clone(), v.clone()
        u[:, :, 0] = 0.0
        u[:, :, -1] = 0.0
        v[:, 0, :] = 0.0
        v[:, -1, :] = 0.0
        return u, v

    def slopes(self, h: Tensor) -> Tensor:
        padded = F.pad(h.unsqueeze(1), [1, 1, 0, 0], mode="replicate").squeeze(1)
        left, right = h - padded[:, :, :-2], padded[:, :, 2:] - h
        if self.limiter == "minmod":
            return minmod(left, right)
        return van_leer(left, right)

    def derivative(self, h: Tensor, u: Tensor, v: Tensor, bed: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        surface = h + bed
        du, dv, dh = torch.zeros_like(u), torch.zeros_like(v), torch.zeros_like(h)
        du[:, :, 1:-1] = -self.gravity * (surface[:, :, 2:] - surface[:, :, :-2]) / (2 * self.dx)
        dv[:, 1:-1] = -self.gravity * (surface[:, 2:] - surface[:, :-2]) / (2 * self.dx)
        du += self.coriolis * v
        dv -= self.coriolis * u
        slope = self.slopes(h)
        upwind = torch.where(u > 0, h + 0.5 * slope, h - 0.5 * slope)
        fx, fy = upwind * u, h * v
        dh[:, :, 1:-1] -= (fx[:, :, 2:] - fx[:, :, :-2]) / (2 * self.dx)
        dh[:, 1:-1] -= (fy[:, 2:] - fy[:, :-2]) / (2 * self.dx)
        return dh, du, dv

    def forward(self, h: Tensor, u: Tensor, v: Tensor, bed: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        u, v = self.walls(u, v)
        dh, du, dv = self.derivative(h, u, v, bed)
        half = 0.5 * self.dt
        dh2, du2, dv2 = self.derivative(h + half * dh, u + half * du, v + half * dv, bed)
        h = (h + self.dt * dh2).clamp(min=0.0)
        u = u + self.dt * du2
        v = v + self.dt * dv2
        speed = torch.sqrt(u * u + v * v)
        drag = 1.0 + self.dt * self.friction(h, u, v) * speed / h.clamp(min=self.dry)
        u /= drag
        v /= drag
        wet = h > self.dry
        u = u * wet
        v = v.masked_fill(~wet, 0.0)
        vorticity = torch.zeros_like(h)
        vorticity[:, 1:-1, 1:-1] = (v[:, 1:-1, 2:] - v[:, 1:-1, :-2]) - (u[:, 2:, 1:-1] - u[:, :-2, 1:-1])
        energy = (0.5 * h * speed.pow(2) + 0.5 * self.gravity * h.square()).sum([1, 2])
        return h, u, v, energy / energy.detach().mean() + vorticity.abs().mean()


model = ShallowWater()
inputs = (
    torch.rand(2, 6, 7) + 0.2,
    torch.randn(2, 6, 7) * 0.3,
    torch.randn(2, 6, 7) * 0.3,
    torch.rand(2, 6, 7) * 0.1,
)
