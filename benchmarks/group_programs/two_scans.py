"""Two selective scans: the guards of some differentiable graphs fail in the second pass."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Scan(nn.Module):
    def __init__(self, d: int = 4, n: int = 3):
        super().__init__()
        self.A = nn.Parameter(torch.randn(d, n))
        self.D = nn.Parameter(torch.randn(d))
        self.dt = nn.Linear(d, d)
        self.bc = nn.Linear(d, 2 * n)

    def forward(self, u: Tensor) -> Tensor:
        delta = F.softplus(self.dt(u))
        b, c = self.bc(u).chunk(2, -1)
        a = torch.exp(delta.unsqueeze(-1) * -torch.exp(self.A))
        bu = delta.unsqueeze(-1) * b.unsqueeze(2) * u.unsqueeze(-1)
        h = torch.zeros_like(a[:, 0])
        ys = []
        for i in range(u.size(1)):
            h = a[:, i] * h + bu[:, i]
            ys.append((h * c[:, i].unsqueeze(1)).sum(-1))
        return torch.stack(ys, 1) + u * self.D


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = Scan()
        self.two = Scan()

    def forward(self, u: Tensor) -> Tensor:
        return self.two(F.silu(self.one(u))) * torch.sigmoid(u)


model = Model()
inputs = (torch.randn(2, 3, 4),)
