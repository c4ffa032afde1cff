"""Springs and balls in 3D: Hooke's law with damping, a floor with friction, balls that push each other."""

import torch
from torch import Tensor, nn


class Springs(nn.Module):
    def __init__(self, dt: float = 0.02, steps: int = 3, radius: float = 0.4, friction: float = 0.3) -> None:
        super().__init__()
        self.dt, self.steps, self.radius, self.friction = dt, steps, radius, friction
        self.stiffness = nn.Parameter(torch.tensor(40.0))
        self.damping = nn.Parameter(torch.tensor(0.5))
        self.log_mass = nn.Parameter(torch.zeros(5))
        self.register_buffer("gravity", torch.tensor([0.0, 0.0, -9.81]))

    def springs(self, x: Tensor, v: Tensor, links: Tensor, rest: Tensor) -> Tensor:
        i, j = links[:, 0], links[:, 1]
        delta = x[j] - x[i]
        length = delta.norm(2, -1, True).clamp(min=1e-6)
        direction = delta / length
        closing = ((v[j] - v[i]) * direction).sum(-1, keepdim=True)
        pull = self.stiffness * (length - rest.unsqueeze(-1)) + self.damping * closing
        force = torch.zeros_like(x)
        force.index_add_(0, i, pull * direction)
        force.index_add_(0, j, -pull * direction)
        return force

    def contacts(self, x: Tensor) -> Tensor:
        delta = x.unsqueeze(1) - x.unsqueeze(0)
        squared = (delta * delta).sum(-1)
        distance = torch.sqrt(squared + 1e-9)
        overlap = (2 * self.radius - distance).clamp(min=0.0)
        overlap = overlap * (1 - torch.eye(x.size(0), device=x.device))
        return 200.0 * (overlap.pow(1.5) / distance).unsqueeze(-1).mul(delta).sum(1)

    def forward(
        self, x: Tensor, v: Tensor, links: Tensor, rest: Tensor, fixed: Tensor
    ) -> tuple[Tensor, Tensor]:
        x, v = x.clone(), v.clone()
        mass = torch.exp(self.log_mass).unsqueeze(-1)
        energy = torch.zeros((), dtype=x.dtype)
        for step in range(self.steps):
            force = self.springs(x, v, links, rest) + self.contacts(x)
            a = force / mass + self.gravity
            a = a.masked_fill(fixed.unsqueeze(-1), 0.0)
            v = v + self.dt * a
            v = v * (1 - 0.01 * self.dt)
            below = x[:, 2] < self.radius
            up = torch.where(below, v[:, 2].abs() * 0.6, v[:, 2])
            slow = torch.where(below, 1 - self.friction, 1.0)
            v = torch.cat([v[:, :2] * slow.unsqueeze(-1), up.unsqueeze(-1)], dim=-1)
            x = x + self.dt * v
            x[:, 2].clamp_(min=self.radius)
            if step % 2 == 0:
                kinetic = 0.5 * (mass * v * v).sum()
                energy += kinetic - (mass * x * self.gravity).sum()
        target = torch.tensor([0.0, 0.0, 1.0], dtype=x.dtype, device=x.device)
        miss = (x[-1] - target).pow(2).sum()
        return miss + 1e-3 * energy / self.steps, torch.cat([x, v], dim=1)


model = Springs()
inputs = (
    torch.tensor([[0.0, 0, 0.41], [0.7, 0, 0.5], [0, 0.75, 0.45], [0.6, 0.7, 0.6], [0.3, 0.3, 1.3]]),
    torch.randn(5, 3),
    torch.tensor([[0, 1], [0, 2], [1, 3], [2, 3], [3, 4], [0, 4]]),
    torch.full((6,), 0.8),
    torch.tensor([True, False, False, False, False]),
)
