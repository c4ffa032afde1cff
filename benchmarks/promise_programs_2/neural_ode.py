"""A step of Runge-Kutta for a gated vector field, with a softsign and a Mish."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Field(nn.Module):
    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)
        self.gate = nn.Linear(1, dim)

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        h = F.mish(self.fc1(x))
        return F.softsign(self.fc2(h)) * torch.sigmoid(self.gate(t.view(1, 1)))


class RK4(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = Field()

    def forward(self, x: Tensor, t: Tensor, dt: Tensor) -> Tensor:
        k1 = self.f(t, x)
        k2 = self.f(t + dt / 2, x + dt / 2 * k1)
        k3 = self.f(t + dt / 2, x + dt / 2 * k2)
        k4 = self.f(t + dt, x + dt * k3)
        return x + dt / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)


model = RK4()
inputs = (torch.randn(3, 5), torch.tensor(0.0), torch.tensor(0.1))
