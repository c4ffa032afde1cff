"""Optimisers with state in dictionaries: NovoGrad by layer, a weight average, a schedule with warm-up."""

import math

import torch
from torch import Tensor


def schedule(step: int, warmup: int, total: int) -> float:
    if step < warmup:
        return float(step) / float(max(1, warmup))
    progress = float(step - warmup) / float(max(1, total - warmup))
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))


def novograd(p: Tensor, g: Tensor, m: Tensor, v: Tensor, lr: float, decay: float) -> Tensor:
    norm = g.pow(2).sum()
    v.mul_(0.98).add_(norm, alpha=0.02)
    denom = v.sqrt().add_(1e-8)
    update = g / denom
    update += decay * p
    update.mul_(0.05)
    m.mul_(0.95).add_(update)
    p.add_(m, alpha=-lr)
    return norm


def adafactor_like(p: Tensor, g: Tensor, row: Tensor, col: Tensor, lr: float) -> Tensor:
    square = g * g
    square += 1e-30
    row.mul_(0.9).add_(square.mean(dim=-1), alpha=0.1)
    col.mul_(0.9).add_(square.mean(dim=-2), alpha=0.1)
    r = (row / row.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
    c = col.unsqueeze(-2).rsqrt()
    update = torch.mul(r, c)
    update.mul_(g)
    rms = update.norm(2) / (update.numel() ** 0.5)
    update.div_((rms / 1.0).clamp_(min=1.0))
    update.mul_(lr)
    p.add_(-update)
    return rms


def model(
    params: dict[str, Tensor],
    grads: dict[str, Tensor],
    state: dict[str, Tensor],
    averages: dict[str, Tensor],
    step: int,
) -> tuple[Tensor, float]:
    lr = 0.1 * schedule(step, 3, 20)
    total = torch.zeros_like(state["v.w"])
    for name, p in params.items():
        g = grads[name].clone()
        g.clamp_(-2.0, 2.0)
        if name == "w":
            total += novograd(p, g, state["m.w"], state["v.w"], lr, 0.01)
        else:
            total += adafactor_like(p, g, state["row.u"], state["col.u"], lr)
        averages[name].lerp_(p, 0.1)
    return total, lr


inputs = (
    {"w": torch.randn(4, 5), "u": torch.randn(3, 4)},
    {"w": torch.randn(4, 5), "u": torch.randn(3, 4)},
    {"m.w": torch.zeros(4, 5), "v.w": torch.zeros(()), "row.u": torch.rand(3), "col.u": torch.rand(4)},
    {"w": torch.zeros(4, 5), "u": torch.zeros(3, 4)},
    5,
)
