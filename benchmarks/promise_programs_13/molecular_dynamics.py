"""Lennard-Jones particles in a periodic box: minimum images, a smooth cut-off, Langevin steps in place."""

from typing import Tuple

import torch
from torch import Tensor, nn


def minimum_image(diff: Tensor, box: Tensor) -> Tensor:
    diff = diff.clone()
    diff -= box * torch.round(diff / box)
    return diff


def switch(r: Tensor, start: float, end: float) -> Tensor:
    t = (r - start) / (end - start)
    t.clamp_(0.0, 1.0)
    return 1.0 - t**3 * (10.0 - 15.0 * t + 6.0 * t * t)


class LennardJones(nn.Module):
    def __init__(self, cutoff: float = 2.5) -> None:
        super().__init__()
        self.log_epsilon = nn.Parameter(torch.zeros(()))
        self.sigma = nn.Parameter(torch.ones(()))
        self.cutoff = cutoff

    def forward(self, pos: Tensor, box: Tensor) -> Tuple[Tensor, Tensor]:
        n = pos.size(0)
        diff = minimum_image(pos[:, None] - pos[None], box)
        r2 = (diff * diff).sum(-1)
        eye = torch.eye(n, dtype=torch.bool, device=pos.device)
        r2 = r2.masked_fill(eye, 1e6)
        r = r2.sqrt()
        s6 = (self.sigma**2 / r2) ** 3
        energy = 4.0 * self.log_epsilon.exp() * (s6 * s6 - s6)
        energy = energy * switch(r, 0.8 * self.cutoff, self.cutoff)
        energy = energy * (r < self.cutoff).to(energy.dtype)
        force = (24.0 * self.log_epsilon.exp() * (2.0 * s6 * s6 - s6) / r2).unsqueeze(-1) * diff
        return 0.5 * energy.sum(), force.sum(1).clamp(-50.0, 50.0)


class Simulation(nn.Module):
    def __init__(self, steps: int = 2) -> None:
        super().__init__()
        self.potential = LennardJones()
        self.steps = steps
        self.dt, self.gamma, self.kt = 0.005, 0.1, 0.5
        self.register_buffer("box", torch.tensor([4.0, 4.0, 4.0]))

    def forward(self, pos: Tensor, vel: Tensor, mass: Tensor, noise: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        energy, force = self.potential(pos, self.box)
        total = energy
        for step in range(self.steps):
            vel = vel + 0.5 * self.dt * force / mass
            pos = pos + 0.5 * self.dt * vel
            c1 = float(torch.exp(torch.tensor(-self.gamma * self.dt)))
            kick = noise[step] * torch.sqrt(self.kt * (1.0 - c1 * c1) / mass)
            vel = c1 * vel
            vel += kick
            pos = pos + 0.5 * self.dt * vel
            pos = pos - self.box * torch.floor(pos / self.box)
            energy, force = self.potential(pos, self.box)
            vel += 0.5 * self.dt * force / mass
            total = total + energy
        kinetic = 0.5 * (mass * vel.pow(2)).sum()
        return pos, vel, total / (self.steps + 1) + kinetic


model = Simulation()
inputs = (torch.rand(6, 3) * 4.0, torch.randn(6, 3) * 0.3, torch.rand(6, 1) + 0.5, torch.randn(2, 6, 3))
