"""An Adan step for a list of parameters, clipped by the global norm, with a trust ratio for matrices."""

import torch
from torch import Tensor


def global_clip(grads: list[Tensor], limit: float) -> list[Tensor]:
    total = torch.zeros([], device=grads[0].device)
    for g in grads:
        total += g.pow(2).sum()
    coefficient = limit / (total.sqrt() + 1e-6)
    coefficient = torch.clamp(coefficient, max=1.0)
    return [g * coefficient for g in grads]


def model(
    params: list[Tensor],
    grads: list[Tensor],
    previous: list[Tensor],
    exp_avg: list[Tensor],
    exp_diff: list[Tensor],
    exp_sq: list[Tensor],
    step: int,
) -> list[Tensor]:
    b1, b2, b3 = 0.98, 0.92, 0.99
    lr, eps, decay = 1e-2, 1e-8, 0.02
    c1 = 1.0 - b1**step
    c2 = 1.0 - b2**step
    c3 = (1.0 - b3**step) ** 0.5
    grads = global_clip(grads, 1.0)
    out: list[Tensor] = []
    for i, p in enumerate(params):
        g = grads[i]
        diff = g - previous[i]
        exp_avg[i].mul_(b1).add_(g, alpha=1 - b1)
        exp_diff[i].mul_(b2).add_(diff, alpha=1 - b2)
        look = g + b2 * diff
        exp_sq[i].mul_(b3).addcmul_(look, look, value=1 - b3)
        denom = (exp_sq[i].sqrt() / c3).add_(eps)
        update = exp_avg[i] / c1
        update += b2 * exp_diff[i] / c2
        update /= denom
        if p.dim() > 1:
            ratio = p.norm() / (update.norm() + eps)
            update *= ratio.clamp(0.1, 10.0)
        new = p - lr * update
        new /= 1.0 + lr * decay
        previous[i].copy_(g)
        out.append(new)
    return out


def tensors() -> list[Tensor]:
    return [torch.randn(6, 5), torch.randn(6), torch.randn(4, 6)]


inputs = (
    tensors(),
    tensors(),
    tensors(),
    tensors(),
    tensors(),
    [t * t for t in tensors()],
    3,
)
