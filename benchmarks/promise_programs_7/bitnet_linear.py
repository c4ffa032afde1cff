"""Layers with ternary weights and eight-bit activations, quantised with a straight-through estimator."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def activation_quant(x: Tensor) -> Tensor:
    scale = 127.0 / x.abs().max(dim=-1, keepdim=True).values.clamp_(min=1e-5)
    return (x * scale).round().clamp_(-128, 127) / scale


def weight_quant(w: Tensor) -> Tensor:
    scale = 1.0 / w.abs().mean().clamp_(min=1e-5)
    return (w * scale).round().clamp_(-1, 1) / scale


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps)).to(x.dtype)


class BitLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        x_quant = x + (activation_quant(x) - x).detach()
        w = self.weight
        w_quant = w + (weight_quant(w) - w).detach()
        return F.linear(x_quant, w_quant, self.bias)


class BitMLP(nn.Module):
    def __init__(self, dim: int = 8, hidden: int = 12) -> None:
        super().__init__()
        self.norm = RMSNorm(dim)
        self.gate_proj = BitLinear(dim, hidden, bias=False)
        self.up_proj = BitLinear(dim, hidden, bias=False)
        self.mid_norm = RMSNorm(hidden)
        self.down_proj = BitLinear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        h = F.relu(self.gate_proj(h)).square() * self.up_proj(h)
        h = self.down_proj(self.mid_norm(h))
        return x + h


model = BitMLP()
inputs = (torch.randn(2, 5, 8),)
