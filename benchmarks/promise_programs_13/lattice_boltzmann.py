"""A D2Q9 lattice Boltzmann step with obstacles, and the shallow water equations on a staggered grid."""

from typing import List, Tuple

import torch
from torch import Tensor, nn


class Lattice(nn.Module):
    def __init__(self, omega: float = 1.2) -> None:
        super().__init__()
        self.omega = nn.Parameter(torch.tensor(omega))
        self.register_buffer("weight", torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4))
        self.register_buffer("cx", torch.tensor([0.0, 1.0, 0.0, -1.0, 0.0, 1.0, -1.0, -1.0, 1.0]))
        self.register_buffer("cy", torch.tensor([0.0, 0.0, 1.0, 0.0, -1.0, 1.0, 1.0, -1.0, -1.0]))
        self.shifts: List[Tuple[int, int]] = [
            (0, 0),
            (1, 0),
            (0, 1),
            (-1, 0),
            (0, -1),
            (1, 1),
            (-1, 1),
            (-1, -1),
            (1, -1),
        ]
        self.opposite: List[int] = [0, 3, 4, 1, 2, 7, 8, 5, 6]

    def equilibrium(self, rho: Tensor, ux: Tensor, uy: Tensor) -> Tensor:
        cu = 3.0 * (self.cx[:, None, None] * ux + self.cy[:, None, None] * uy)
        square = 1.5 * (ux * ux + uy * uy)
        return self.weight[:, None, None] * rho * (1.0 + cu + 0.5 * cu * cu - square)

    def forward(self, f: Tensor, solid: Tensor, inflow: float) -> Tuple[Tensor, Tensor]:
        moved: List[Tensor] = []
        for i in range(9):
            dx, dy = self.shifts[i]
            moved.append(torch.roll(f[i], [dx, dy], [0, 1]))
        f = torch.stack(moved)
        rho = f.sum(0)
        ux = (f * self.cx[:, None, None]).sum(0) / rho
        uy = (f * self.cy[:, None, None]).sum(0) / rho
        ux = ux.clone()
        ux[0, :] += inflow
        ux = ux.masked_fill(solid, 0.0)
        uy = uy.masked_fill(solid, 0.0)
        feq = self.equilibrium(rho, ux, uy)
        out = f - self.omega * (f - feq)
        bounced = f[self.opposite]
        out = torch.where(solid, bounced, out)
        vorticity = (torch.roll(uy, -1, 0) - torch.roll(uy, 1, 0)) - (
            torch.roll(ux, -1, 1) - torch.roll(ux, 1, 1)
        )
        vorticity *= 0.5
        vorticity[solid] = 0.0
        return out, vorticity


class ShallowWater(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lattice = Lattice()
        self.drag = nn.Parameter(torch.tensor(0.1))
        self.g, self.dt = 9.8, 0.01

    def forward(
        self, h: Tensor, u: Tensor, v: Tensor, f: Tensor, solid: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        f, curl = self.lattice(f, solid, 0.05)
        u = u - self.dt * self.g * (h - torch.roll(h, 1, 0))
        v = v - self.dt * self.g * (h - torch.roll(h, 1, 1))
        u *= 1.0 - self.dt * self.drag
        v *= 1.0 - self.dt * self.drag
        flux = (torch.roll(u, -1, 0) - u) + (torch.roll(v, -1, 1) - v)
        h = h - self.dt * flux * h
        h = h.clamp(min=1e-3)
        h[0] = h[1]
        h[-1] = h[-2]
        energy = 0.5 * (h * (u**2 + v**2) + self.g * h * h)
        return h, f, energy.mean() + curl.abs().mean()


model = ShallowWater()
solid = torch.zeros(6, 6, dtype=torch.bool)
solid[2:4, 2:4] = True
inputs = (
    torch.rand(6, 6) + 1.0,
    torch.randn(6, 6) * 0.1,
    torch.randn(6, 6) * 0.1,
    torch.rand(9, 6, 6) * 0.1 + 0.1,
    solid,
)
