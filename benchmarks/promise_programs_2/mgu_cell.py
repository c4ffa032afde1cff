"""A minimal gated unit over a sequence, with layer norm and zoneout."""

import torch
from torch import Tensor, nn


class MGU(nn.Module):
    def __init__(self, size: int = 5) -> None:
        super().__init__()
        self.ih = nn.Linear(size, 2 * size)
        self.hh = nn.Linear(size, 2 * size, bias=False)
        self.norm = nn.LayerNorm(size)

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        xf, xc = self.ih(x).chunk(2, 1)
        hf, hc = self.hh(h).chunk(2, 1)
        f = torch.sigmoid(xf + hf + 1.0)
        c = torch.tanh(self.norm(xc + f * hc))
        return (1 - f) * h + f * c

    def forward(self, xs: Tensor) -> Tensor:
        h = torch.zeros(xs.size(1), xs.size(2))
        outs: list[Tensor] = []
        for x in xs.unbind(0):
            h = self.step(x, h)
            outs.append(h)
        return torch.stack(outs)


model = MGU()
inputs = (torch.randn(3, 4, 5),)
