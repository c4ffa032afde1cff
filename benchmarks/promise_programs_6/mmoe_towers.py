"""Multi-gate mixture of experts with two towers of one task each, several modules called on a line."""

import torch
from torch import Tensor, nn


class Tower(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act1 = nn.PReLU()
        self.fc2 = nn.Linear(hidden, hidden)
        self.act2 = nn.PReLU()
        self.out = nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act2(self.fc2(self.act1(self.fc1(x))))
        return torch.sigmoid(self.out(x)).squeeze(-1)


class MMoE(nn.Module):
    def __init__(self, dim: int = 10, experts: int = 3, hidden: int = 8) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(inplace=True)) for _ in range(experts)]
        )
        self.gates = nn.ModuleList([nn.Linear(dim, experts, bias=False) for _ in range(2)])
        self.ctr = Tower(hidden, 6)
        self.cvr = Tower(hidden, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        outs = []
        for expert in self.experts:
            outs.append(expert(x))
        stacked = torch.stack(outs, dim=1)
        mixed = []
        for gate in self.gates:
            w = torch.softmax(gate(x), dim=-1).unsqueeze(-1)
            mixed.append((stacked * w).sum(1))
        ctr, cvr = self.ctr(mixed[0]), self.cvr(mixed[1])
        ctcvr = ctr * cvr
        return ctr.clamp(1e-7, 1 - 1e-7), ctcvr.clamp(1e-7, 1 - 1e-7)


model = MMoE()
inputs = (torch.randn(4, 10),)
