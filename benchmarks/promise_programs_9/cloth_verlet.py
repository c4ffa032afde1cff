"""A cloth of springs: forces by scatter, Verlet's integrator, collisions with the floor and a ball."""

import torch
from torch import Tensor


def spring_forces(x: Tensor, v: Tensor, edges: Tensor, rest: Tensor, k: float, damp: float) -> Tensor:
    i, j = edges[0], edges[1]
    d = x[j] - x[i]
    length = d.norm(p=2, dim=-1, keepdim=True)
    direction = d / (length + 1e-8)
    stretch = length - rest.unsqueeze(-1)
    closing = ((v[j] - v[i]) * direction).sum(-1, keepdim=True)
    f = (k * stretch + damp * closing) * direction
    force = torch.zeros_like(x)
    force.index_add_(0, i, f)
    force.index_add_(0, j, -f)
    return force


def model(
    position: Tensor, last: Tensor, edges: Tensor, rest: Tensor, mass: Tensor, fixed: Tensor, wind: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    dt = 0.02
    gravity = torch.zeros_like(position)
    gravity[:, 1] = -9.81
    x, prev = position, last
    energy = torch.zeros([], device=position.device)
    for _ in range(3):
        v = (x - prev) / dt
        force = spring_forces(x, v, edges, rest, 40.0, 0.3)
        force += gravity * mass[:, None]
        relative = wind - v
        force += 0.05 * relative * relative.norm(p=2, dim=-1, keepdim=True)
        acceleration = force / mass[:, None]
        new = x + (x - prev) * 0.99 + acceleration * dt * dt
        new[:, 1].clamp_(min=0.0)
        radius = new.norm(p=2, dim=-1, keepdim=True)
        new = torch.where(radius < 0.5, new * (0.5 / radius.clamp(min=1e-4)), new)
        new = torch.where(fixed[:, None], position, new)
        energy += 0.5 * (mass * v.pow(2).sum(-1)).sum()
        prev = x
        x = new
    return x, prev, energy


inputs = (
    torch.rand(9, 3, requires_grad=True),
    torch.rand(9, 3),
    torch.tensor([[0, 1, 3, 4, 6, 7, 0, 1, 2, 3, 4, 5], [1, 2, 4, 5, 7, 8, 3, 4, 5, 6, 7, 8]]),
    torch.full((12,), 0.4),
    torch.ones(9),
    torch.tensor([True] + [False] * 8),
    torch.tensor([1.0, 0.0, 0.5]),
)
