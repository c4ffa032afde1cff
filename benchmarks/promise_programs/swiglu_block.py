"""The SwiGLU feed-forward block of a language model, after RMS norm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SwiGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.up = nn.Linear(6, 8, bias=False)
        self.gate = nn.Linear(6, 8, bias=False)
        self.down = nn.Linear(8, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        y = y.type_as(x) * self.scale
        h = F.silu(self.gate(y)) * self.up(y)
        out = self.down(h)
        out += x
        return out


model = SwiGLU()
inputs = (torch.randn(2, 3, 6),)
