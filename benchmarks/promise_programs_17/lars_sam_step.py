"""A training step by hand: unscaled gradients, clipping, SAM's ascent, LARS with momentum, lookahead, an average."""

from typing import List, Tuple

import torch
from torch import Tensor


def unscale_(grads: List[Tensor], inv_scale: Tensor) -> Tensor:
    found_inf = torch.zeros((), device=inv_scale.device)
    for g in grads:
        g.mul_(inv_scale)
        found_inf = torch.max(found_inf, (~torch.isfinite(g)).any().float())
    return found_inf


def clip_grad_norm(grads: List[Tensor], max_norm: float) -> Tuple[List[Tensor], Tensor]:
    norms = torch.stack([torch.norm(g.detach(), 2) for g in grads])
    total = torch.norm(norms, 2)
    clip_coef = max_norm / (total + 1e-6)
    clip_coef_clamped = torch.clamp(clip_coef, max=1.0)
    out: List[Tensor] = []
    for g in grads:
        out.append(g * clip_coef_clamped)
    return out, total


def centralize(g: Tensor) -> Tensor:
    if g.dim() > 1:
        g = g - g.mean(dim=1, keepdim=True)
    return g


def adaptive_clip(p: Tensor, g: Tensor, clip: float = 0.1, eps: float = 1e-3) -> Tensor:
    if p.dim() < 2:
        return g
    p_norm = p.norm(2, dim=1, keepdim=True).clamp(min=eps)
    g_norm = g.norm(2, dim=1, keepdim=True)
    limit = p_norm * clip
    clipped = g * (limit / g_norm.clamp(min=1e-6))
    return torch.where(g_norm > limit, clipped, g)


def sam_perturb(params: List[Tensor], grads: List[Tensor], rho: float, adaptive: bool) -> List[Tensor]:
    norm = torch.zeros((), device=params[0].device)
    for p, g in zip(params, grads):
        scaled = torch.abs(p) * g if adaptive else g
        norm += (scaled**2).sum()
    scale = rho / (norm.sqrt() + 1e-12)
    shifted: List[Tensor] = []
    for p, g in zip(params, grads):
        e_w = (torch.pow(p, 2) if adaptive else torch.ones_like(p)) * g * scale
        shifted.append(p + e_w)
    return shifted


def lars_step(
    params: List[Tensor],
    grads: List[Tensor],
    buffers: List[Tensor],
    lr: Tensor,
    momentum: float,
    weight_decay: float,
    trust: float,
    nesterov: bool,
) -> List[Tensor]:
    result: List[Tensor] = []
    for i, p in enumerate(params):
        g = adaptive_clip(p, centralize(grads[i]))
        if p.dim() > 1:
            g = g.add(p, alpha=weight_decay)
            param_norm = torch.norm(p)
            update_norm = torch.norm(g)
            one = torch.ones_like(param_norm)
            q = torch.where(
                param_norm > 0.0, torch.where(update_norm > 0, trust * param_norm / update_norm, one), one
            )
            g = g.mul(q)
        buf = buffers[i]
        buf.mul_(momentum).add_(g)
        if nesterov:
            g = g + momentum * buf
        else:
            g = buf
        result.append(p - lr * g)
    return result


def step(
    params: List[Tensor],
    grads: List[Tensor],
    buffers: List[Tensor],
    slow: List[Tensor],
    average: List[Tensor],
    count: int,
    scale: Tensor,
) -> Tuple[List[Tensor], Tensor, Tensor]:
    found_inf = unscale_(grads, 1.0 / scale)
    clipped, total = clip_grad_norm(grads, 1.0)
    shifted = sam_perturb(params, clipped, 0.05, True)
    second = [0.9 * g + 0.1 * (s - p) for g, s, p in zip(clipped, shifted, params)]
    warm = min(1.0, float(count + 1) / 10.0)
    lr = torch.where(found_inf > 0, torch.zeros_like(scale), torch.full_like(scale, 0.1 * warm))
    with torch.no_grad():
        updated = lars_step(params, second, buffers, lr, 0.9, 1e-2, 1e-2, True)
    decay = min(0.99, (1.0 + count) / (10.0 + count))
    for i, p in enumerate(updated):
        if (count + 1) % 5 == 0:
            slow[i].add_(p - slow[i], alpha=0.5)
            updated[i] = slow[i].clone()
        average[i].mul_(decay).add_(updated[i], alpha=1 - decay)
    new_scale = torch.where(found_inf > 0, scale * 0.5, scale * 1.0001)
    return updated, total, new_scale


def inputs():
    shapes = [(8, 12), (8,), (4, 8), (4,)]
    made = [[torch.randn(s) for s in shapes] for _ in range(5)]
    made[1] = [g * 128 for g in made[1]]
    return (*made, 4, torch.tensor(128.0))


model = step
