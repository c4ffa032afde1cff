"""Steps of Muon, Prodigy and schedule-free AdamW on lists of parameters, with clipping and a skipped step."""

from typing import List, Tuple

import torch
from torch import Tensor


def orthogonalised(g: Tensor, steps: int = 3, eps: float = 1e-7) -> Tensor:
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.float()
    x /= x.norm() + eps
    tall = g.size(0) > g.size(1)
    if tall:
        x = x.t()
    for _ in range(steps):
        gram = x @ x.t()
        poly = b * gram + c * gram @ gram
        x = a * x + poly @ x
    if tall:
        x = x.t()
    return x.type_as(g)


def clip(grads: List[Tensor], max_norm: float) -> Tensor:
    total = torch.stack([g.norm() for g in grads]).norm()
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(scale)
    return total


def muon(p: Tensor, g: Tensor, momentum: Tensor, lr: float, beta: float, decay: float) -> None:
    momentum.mul_(beta).add_(g)
    update = g.add(momentum, alpha=beta)
    update = orthogonalised(update)
    update *= max(1.0, p.size(0) / p.size(1)) ** 0.5
    p.mul_(1 - lr * decay)
    p.add_(update, alpha=-lr)


def schedule_free(y: Tensor, z: Tensor, sq: Tensor, g: Tensor, step: int, lr: float, warm: int) -> None:
    beta1, beta2 = 0.9, 0.999
    sched = min(1.0, (step + 1) / warm)
    correction = 1 - beta2 ** (step + 1)
    rate = lr * sched * correction**0.5
    sq.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    denom = sq.sqrt().add_(1e-8)
    normalised = g / denom
    normalised += 0.01 * y
    ck = 1.0 / (step + 1)
    y.lerp_(z, ck)
    y.add_(normalised, alpha=rate * (beta1 * (1 - ck) - 1))
    z.sub_(normalised, alpha=rate)


@torch.jit.script
def model(
    params: List[Tensor],
    grads: List[Tensor],
    momenta: List[Tensor],
    squares: List[Tensor],
    start: Tensor,
    d: Tensor,
    step: int,
) -> Tuple[Tensor, Tensor, List[Tensor]]:
    norm = clip(grads, 1.0)
    finite = torch.isfinite(norm)
    updates: List[Tensor] = []
    for i in range(len(params)):
        g = torch.where(finite, grads[i], torch.zeros_like(grads[i]))
        if g.dim() == 2:
            muon(params[i], g, momenta[i], 0.02, 0.95, 0.01)
        else:
            schedule_free(params[i], momenta[i], squares[i], g, step, 0.0025, 10)
        updates.append(g)
    delta = start - params[0]
    numerator = (d * (updates[0] * delta).sum()).clamp(min=0.0)
    s = squares[0].mul(0.99).add_(updates[0] * d, alpha=0.01)
    estimate = numerator / s.abs().sum().clamp_(min=1e-12)
    d_new = torch.max(d, torch.min(estimate, d * 1.02))
    weighted = [torch.sign(u) * torch.sqrt(u.abs() + 1e-12) * d_new for u in updates]
    return norm, d_new, weighted


inputs = (
    [torch.randn(6, 4), torch.randn(6)],
    [torch.randn(6, 4), torch.randn(6)],
    [torch.randn(6, 4), torch.randn(6)],
    [torch.rand(6, 4), torch.rand(6)],
    torch.randn(6, 4),
    torch.tensor(1e-3),
    4,
)
