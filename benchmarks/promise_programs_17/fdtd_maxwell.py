"""Electromagnetic waves on Yee's grid: absorbing layers, a soft source, dispersive material, a projected design."""

import math
from typing import List

import torch
from torch import Tensor, nn


def curl_e(ex: Tensor, ey: Tensor, ez: Tensor):
    hx = torch.zeros_like(ex)
    hy = torch.zeros_like(ey)
    hz = torch.zeros_like(ez)
    hx[:, :-1] += ez[:, 1:] - ez[:, :-1]
    hy[:-1, :] -= ez[1:, :] - ez[:-1, :]
    hz[:-1, :] += ey[1:, :] - ey[:-1, :]
    hz[:, :-1] -= ex[:, 1:] - ex[:, :-1]
    return hx, hy, hz


def curl_h(hx: Tensor, hy: Tensor, hz: Tensor):
    ex = torch.zeros_like(hx)
    ey = torch.zeros_like(hy)
    ez = torch.zeros_like(hz)
    ex[:, 1:] += hz[:, 1:] - hz[:, :-1]
    ey[1:, :] -= hz[1:, :] - hz[:-1, :]
    ez[1:, :] += hy[1:, :] - hy[:-1, :]
    ez[:, 1:] -= hx[:, 1:] - hx[:, :-1]
    return ex, ey, ez


class Simulation(nn.Module):
    def __init__(self, size: int = 14, steps: int = 3, pml: int = 3, courant: float = 0.5) -> None:
        super().__init__()
        self.steps, self.courant, self.beta, self.eta = steps, courant, 8.0, 0.5
        self.omega, self.gamma_p, self.omega_p = 0.4, 0.05, 0.3
        depth = torch.zeros(size)
        for i in range(pml):
            value = ((pml - i) / pml) ** 3
            depth[i] = value
            depth[size - 1 - i] = value
        sigma = 0.8 * (depth[:, None] + depth[None, :])
        self.register_buffer("sigma", sigma)
        self.design = nn.Parameter(0.1 * torch.randn(size, size))
        self.source = (size // 4, size // 2)
        self.detector: int = size - 4

    def permittivity(self) -> Tensor:
        rho = torch.sigmoid(self.design)
        blurred = torch.nn.functional.avg_pool2d(rho[None, None], 3, 1, 1)[0, 0]
        low = math.tanh(self.beta * self.eta)
        top = low + torch.tanh(self.beta * (blurred - self.eta))
        projected = top / (low + math.tanh(self.beta * (1 - self.eta)))
        return 1.0 + 11.0 * projected

    def forward(self, ex: Tensor, ey: Tensor, ez: Tensor, hx: Tensor, hy: Tensor, hz: Tensor, phase: float):
        eps = self.permittivity()
        inverse = 1.0 / eps
        loss_factor = self.sigma * self.courant * inverse / 2
        ca = (1 - loss_factor) / (1 + loss_factor)
        cb = self.courant * inverse / (1 + loss_factor)
        cm = (1 - self.sigma * self.courant / 2) / (1 + self.sigma * self.courant / 2)
        cn = self.courant / (1 + self.sigma * self.courant / 2)
        jz = torch.zeros_like(ez)
        kappa = (1 - self.gamma_p / 2) / (1 + self.gamma_p / 2)
        metal = (eps > 6.5).to(ez.dtype)
        history: List[Tensor] = []
        for step in range(self.steps):
            cx, cy, cz = curl_e(ex, ey, ez)
            hx = cm * hx - cn * cx
            hy = cm * hy - cn * cy
            hz = cm * hz - cn * cz
            dx, dy, dz = curl_h(hx, hy, hz)
            jz = kappa * jz + metal * self.omega_p**2 / (1 + self.gamma_p / 2) * ez
            ex = ca * ex + cb * dx
            ey = ca * ey + cb * dy
            ez = ca * ez + cb * (dz - jz)
            t = phase + self.omega * step
            pulse = math.sin(t) * math.exp(-((t - 1.0) ** 2) / 8.0)
            ez[self.source[0], self.source[1]] += pulse
            history.append(ez[self.detector])
        energy = 0.5 * (eps * (ex**2 + ey**2 + ez**2) + hx**2 + hy**2 + hz**2)
        sx = ey * hz - ez * hy
        flux = sx[self.detector].sum()
        signal = torch.stack(history)
        window = 0.5 - 0.5 * torch.cos(torch.linspace(0, 2 * math.pi, self.steps + 2, device=ez.device)[1:-1])
        power = ((signal * window[:, None]) ** 2).mean()
        grey = (4 * (eps - 1) * (12 - eps) / 121).mean()
        return torch.log(power + 1e-8) - 0.1 * grey, energy, flux


model = Simulation()
inputs = (*(0.1 * torch.randn(14, 14) for _ in range(6)), 0.5)
