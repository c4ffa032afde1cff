"""AdaBelief over lists of parameters, rectified, with clipping by norm, AMSGrad, a lookahead."""

import math
from typing import Optional

import torch
from torch import Tensor


def clip_grad_norm(grads: list[Tensor], max_norm: float) -> Tensor:
    norms = [g.detach().norm(2) for g in grads]
    total = torch.stack(norms).norm(2)
    coef = max_norm / (total + 1e-6)
    coef = torch.clamp(coef, max=1.0)
    for g in grads:
        g.mul_(coef)
    return total


def centralize(g: Tensor) -> Tensor:
    if g.dim() > 1:
        return g - g.mean(dim=1, keepdim=True)
    return g


def adabelief(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_vars: list[Tensor],
    max_vars: Optional[list[Tensor]],
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    rectify: bool,
) -> None:
    bias1 = 1.0 - beta1**step
    bias2 = 1.0 - beta2**step
    rho_inf = 2.0 / (1.0 - beta2) - 1.0
    rho = rho_inf - 2.0 * step * (beta2**step) / bias2
    for i, p in enumerate(params):
        grad = centralize(grads[i])
        exp_avg, exp_var = exp_avgs[i], exp_vars[i]
        p.mul_(1.0 - lr * weight_decay)
        exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
        residual = grad - exp_avg
        exp_var.mul_(beta2).addcmul_(residual, residual, value=1 - beta2)
        if max_vars is not None:
            peak = max_vars[i]
            torch.max(peak, exp_var.add(eps), out=peak)
            denom = (peak.sqrt() / math.sqrt(bias2)).add_(eps)
        else:
            denom = (exp_var.add_(eps).sqrt() / math.sqrt(bias2)).add_(eps)
        if not rectify:
            p.addcdiv_(exp_avg, denom, value=-lr / bias1)
        elif rho > 5.0:
            r = math.sqrt((rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho))
            p.addcdiv_(exp_avg, denom, value=-lr * r / bias1)
        else:
            p.add_(exp_avg, alpha=-lr / bias1)


def lookahead(params: list[Tensor], slow: list[Tensor], alpha: float) -> None:
    for p, s in zip(params, slow):
        s += alpha * (p - s)
        p.copy_(s)


def model(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_vars: list[Tensor],
    slow: list[Tensor],
    step: int,
) -> tuple[Tensor, Tensor]:
    own = [g.clone() for g in grads]
    total = clip_grad_norm(own, 1.0)
    adabelief(params, own, exp_avgs, exp_vars, None, step, 0.01, 0.9, 0.99, 1e-8, 0.01, True)
    if step % 2 == 0:
        lookahead(params, slow, 0.5)
    drift = torch.zeros_like(total)
    for p, s in zip(params, slow):
        gap = p - s
        gap *= gap
        drift += gap.sum()
    drift.sqrt_()
    return total, drift


inputs = (
    [torch.randn(4, 5), torch.randn(5)],
    [torch.randn(4, 5), torch.randn(5)],
    [torch.zeros(4, 5), torch.zeros(5)],
    [torch.rand(4, 5), torch.rand(5)],
    [torch.randn(4, 5), torch.randn(5)],
    6,
)
