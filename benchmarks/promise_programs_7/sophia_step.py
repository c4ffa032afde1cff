"""Optimiser steps: Sophia with clipped momentum, and Adan with three moments; state in place."""

import torch
from torch import Tensor


def sophia(
    p: Tensor, grad: Tensor, exp_avg: Tensor, hessian: Tensor, lr: float, beta1: float, rho: float, bs: int
) -> None:
    p.mul_(1 - lr * 0.1)
    exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
    ratio = (exp_avg.abs() / (rho * bs * hessian + 1e-15)).clamp(None, 1)
    p.addcmul_(exp_avg.sign(), ratio, value=-lr)


def adan(p: Tensor, grad: Tensor, prev: Tensor, state: list[Tensor], lr: float, step: int) -> Tensor:
    exp_avg, exp_avg_diff, exp_avg_sq = state[0], state[1], state[2]
    bias1, bias2, bias3 = 1 - 0.98**step, 1 - 0.92**step, (1 - 0.99**step) ** 0.5
    diff = grad - prev
    exp_avg.mul_(0.98).add_(grad, alpha=0.02)
    exp_avg_diff.mul_(0.92).add_(diff, alpha=0.08)
    update = diff.mul(0.92).add_(grad)
    exp_avg_sq.mul_(0.99).addcmul_(update, update, value=0.01)
    denom = (exp_avg_sq.sqrt() / bias3).add_(1e-8)
    step_diff = exp_avg_diff.mul(0.92 / bias2)
    new = p - lr * (exp_avg / bias1 + step_diff) / denom
    new /= 1 + lr * 0.02
    return new


def model(
    p: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    hessian: Tensor,
    q: Tensor,
    prev: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
) -> Tensor:
    with torch.no_grad():
        norm = grad.norm(2)
        coef = 1.0 / (norm + 1e-6)
        coef_clamped = torch.clamp(coef, max=1.0)
        grad = grad * coef_clamped
        sophia(p, grad, exp_avg, hessian, 1e-3, 0.965, 0.04, 8)
        return adan(q, grad, prev, [a, b, c], 1e-3, 3)


inputs = (
    torch.randn(4, 6),
    torch.randn(4, 6),
    torch.randn(4, 6) * 0.1,
    torch.rand(4, 6),
    torch.randn(4, 6),
    torch.randn(4, 6),
    torch.zeros(4, 6),
    torch.zeros(4, 6),
    torch.rand(4, 6),
)
