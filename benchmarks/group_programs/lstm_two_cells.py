"""Two LSTM cells over time: their gradient runs again in a fallback function."""

import torch
from torch import Tensor, nn


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.ih = nn.Linear(6, 24)
        self.hh = nn.Linear(6, 24)

    def forward(self, x: Tensor, s: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, c = s
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Cell()
        self.b = Cell()

    def forward(self, xs: Tensor) -> Tensor:
        s = (torch.zeros(xs.size(1), 6), torch.zeros(xs.size(1), 6))
        t = (torch.zeros(xs.size(1), 6), torch.zeros(xs.size(1), 6))
        out: list[Tensor] = []
        for x in xs.unbind(0):
            h, s = self.a(x, s)
            h, t = self.b(h, t)
            out.append(h)
        return torch.stack(out)


model = Model()
inputs = (torch.randn(3, 2, 6),)
