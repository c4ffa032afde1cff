"""One step of LAMB that returns its new state, with the trust ratio."""

import torch
from torch import Tensor


def model(
    p: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step: int
) -> tuple[Tensor, Tensor, Tensor]:
    beta1, beta2 = 0.9, 0.999
    grad = grad / torch.clamp(grad.norm(), min=1.0)
    exp_avg = exp_avg * beta1 + grad * (1 - beta1)
    exp_avg_sq = torch.addcmul(exp_avg_sq * beta2, grad, grad, value=1 - beta2)
    bias1 = 1 - beta1**step
    bias2 = 1 - beta2**step
    denom = (exp_avg_sq / bias2).sqrt().add_(1e-6)
    update = exp_avg.div(bias1).div_(denom)
    update.add_(p, alpha=0.01)
    w_norm = p.pow(2).sum().sqrt()
    g_norm = update.pow(2).sum().sqrt()
    trust = torch.where(
        w_norm > 0, torch.where(g_norm > 0, w_norm / g_norm, torch.ones_like(w_norm)), torch.ones_like(w_norm)
    )
    new_p = torch.addcmul(p, update, trust.expand_as(p), value=-0.001)
    return new_p, exp_avg, exp_avg_sq


inputs = (torch.randn(6, 6), torch.randn(6, 6), torch.randn(6, 6), torch.rand(6, 6), 3)
