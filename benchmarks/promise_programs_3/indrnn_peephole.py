"""An LSTM cell with peepholes, layer norms of its gates and a clipped cell, over some steps."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PeepholeLSTM(nn.Module):
    def __init__(self, d: int = 5, h: int = 6) -> None:
        super().__init__()
        self.ih = nn.Linear(d, 4 * h)
        self.hh = nn.Linear(h, 4 * h, bias=False)
        self.w_ci = nn.Parameter(torch.zeros(h))
        self.w_cf = nn.Parameter(torch.zeros(h))
        self.w_co = nn.Parameter(torch.zeros(h))
        self.norm = nn.LayerNorm(h)
        self.h = h

    def cell(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = self.ih(x) + self.hh(h)
        i, f, g, o = gates.chunk(4, 1)
        i = torch.sigmoid(i + self.w_ci * c)
        f = torch.sigmoid(f + self.w_cf * c + 1.0)
        g = F.hardtanh(g)
        c = torch.clamp(f * c + i * g, -3.0, 3.0)
        o = torch.sigmoid(o + self.w_co * c)
        return o * torch.tanh(self.norm(c)), c

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(1), self.h, device=x.device)
        c = torch.zeros(x.size(1), self.h, device=x.device)
        outputs = []
        for step in range(x.size(0)):
            h, c = self.cell(x[step], h, c)
            outputs += [h]
        return torch.stack(outputs)


model = PeepholeLSTM()
inputs = (torch.randn(3, 2, 5),)
