"""A learned step quantiser with a straight-through gradient, weights and activations."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class QuantLinear(nn.Module):
    def __init__(self, cin: int = 6, cout: int = 5, bits: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin) * 0.3)
        self.bias = nn.Parameter(torch.zeros(cout))
        self.step = nn.Parameter(torch.tensor(0.1))
        self.qn = -(2 ** (bits - 1))
        self.qp = 2 ** (bits - 1) - 1

    def quantise_weight(self, w: Tensor) -> Tensor:
        s = self.step.abs() + 1e-6
        v = (w / s).clamp(self.qn, self.qp)
        v = (v.round() - v).detach() + v
        return v * s

    def quantise_activation(self, x: Tensor) -> Tensor:
        scale = x.detach().abs().max() / 127.0
        zero_point = torch.zeros(1)
        q = torch.round(x / scale + zero_point)
        q = torch.clamp(q, -128, 127)
        dq = (q - zero_point) * scale
        return x + (dq - x).detach()

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(self.quantise_activation(x), self.quantise_weight(self.weight), self.bias)
        return F.hardtanh(y, 0.0, 6.0)


model = QuantLinear()
inputs = (torch.randn(4, 6),)
