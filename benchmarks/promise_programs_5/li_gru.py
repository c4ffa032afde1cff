"""A light GRU with batch norm on the input and a dropout mask shared by all steps."""

import torch
from torch import Tensor, nn


class LiGRU(nn.Module):
    def __init__(self, dim: int = 6, hidden: int = 5) -> None:
        super().__init__()
        self.w = nn.Linear(dim, 2 * hidden, bias=False)
        self.u = nn.Linear(hidden, 2 * hidden, bias=False)
        self.norm = nn.BatchNorm1d(2 * hidden, momentum=0.05)
        self.act = nn.ReLU()

    def forward(self, x: Tensor, ht: Tensor, drop: Tensor) -> Tensor:
        w = self.w(x)
        w = self.norm(w.reshape(w.shape[0] * w.shape[1], w.shape[2])).reshape(
            w.shape[0], w.shape[1], w.shape[2]
        )
        hiddens = []
        for k in range(w.shape[1]):
            gates = w[:, k] + self.u(ht)
            at, zt = gates.chunk(2, 1)
            zt = torch.sigmoid(zt)
            hcand = self.act(at) * drop
            ht = zt * ht + (1 - zt) * hcand
            hiddens.append(ht)
        return torch.stack(hiddens, dim=1)


model = LiGRU()
inputs = (torch.randn(4, 3, 6), torch.zeros(4, 5), torch.ones(4, 5))
