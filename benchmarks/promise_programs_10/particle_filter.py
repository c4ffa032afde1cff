"""A differentiable particle filter: a motion model, log weights, systematic and soft resampling."""

import math
from typing import Optional

import torch
from torch import Tensor, nn


def wrap_angle(angle: Tensor) -> Tensor:
    return ((angle - math.pi) % (2 * math.pi)) - math.pi


def systematic_indices(weights: Tensor, offset: Tensor) -> Tensor:
    count = weights.size(1)
    steps = torch.arange(count, device=weights.device, dtype=weights.dtype)
    markers = (steps.unsqueeze(0) + offset.unsqueeze(1)) / count
    cumulative = torch.cumsum(weights, dim=1)
    cumulative[:, -1] = 1.0
    return torch.searchsorted(cumulative.contiguous(), markers.contiguous()).clamp_(max=count - 1)


class ParticleFilter(nn.Module):
    def __init__(self, hidden: int = 8, alpha: float = 0.5) -> None:
        super().__init__()
        self.noise = nn.Sequential(nn.Linear(5, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, 3))
        self.likelihood = nn.Sequential(
            nn.Linear(6, hidden), nn.ELU(inplace=True), nn.Linear(hidden, 1), nn.Sigmoid()
        )
        self.alpha = alpha
        self.min_obs = 0.004

    def motion(self, particles: Tensor, action: Tensor, noise: Tensor) -> Tensor:
        a = action[:, None, :].expand(-1, particles.size(1), -1)
        scale = self.noise(torch.cat([a, noise], dim=-1))
        scale = scale - scale.mean(dim=1, keepdim=True)
        moved = a + 0.1 * scale[..., :2] * noise[..., :2]
        theta = particles[..., 2]
        sin, cos = torch.sin(theta), torch.cos(theta)
        new = particles.clone()
        new[..., 0] += moved[..., 0] * cos + 0.1 * sin
        new[..., 1] += moved[..., 0] * sin - 0.1 * cos
        new[..., 2] = wrap_angle(theta + moved[..., 1])
        return new

    def measure(self, particles: Tensor, encoding: Tensor) -> Tensor:
        pose = torch.stack(
            [
                particles[..., 0],
                particles[..., 1],
                torch.sin(particles[..., 2]),
                torch.cos(particles[..., 2]),
            ],
            dim=-1,
        )
        e = encoding[:, None, :].repeat(1, particles.size(1), 1)
        likelihood = self.likelihood(torch.cat([pose, e], dim=-1)).squeeze(-1)
        likelihood = likelihood * (1 - self.min_obs)
        likelihood += self.min_obs
        return likelihood

    def forward(
        self,
        particles: Tensor,
        actions: Tensor,
        encodings: Tensor,
        noise: Tensor,
        u: Tensor,
        truth: Optional[Tensor] = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, count = particles.size(0), particles.size(1)
        log_w = torch.full((batch, count), -math.log(count), device=particles.device)
        estimates: list[Tensor] = []
        ess = torch.zeros(batch, device=particles.device)
        for t in range(actions.size(1)):
            particles = self.motion(particles, actions[:, t], noise[t])
            log_w = log_w + torch.log(self.measure(particles, encodings[:, t]))
            log_w = log_w - torch.logsumexp(log_w, dim=1, keepdim=True)
            w = torch.exp(log_w)
            xy = (w.unsqueeze(-1) * particles[..., :2]).sum(dim=1)
            sin = (w * torch.sin(particles[..., 2])).sum(dim=1)
            cos = (w * torch.cos(particles[..., 2])).sum(dim=1)
            estimates.append(torch.cat([xy, torch.atan2(sin, cos).unsqueeze(-1)], dim=-1))
            ess += 1.0 / (w * w).sum(dim=1)
            proposal = self.alpha * w + (1 - self.alpha) / count
            index = systematic_indices(proposal.detach(), u[t])
            particles = particles.gather(1, index.unsqueeze(-1).expand(-1, -1, 3))
            log_w = torch.gather(torch.log(w + 1e-12) - torch.log(proposal), 1, index)
        path = torch.stack(estimates, dim=1)
        loss = torch.zeros([], device=particles.device)
        if truth is not None:
            difference = path - truth
            difference[..., 2] = wrap_angle(difference[..., 2])
            loss = difference.pow(2).sum(dim=-1).mean()
        return path, ess / actions.size(1), loss


model = ParticleFilter()
inputs = (
    torch.randn(2, 6, 3),
    torch.randn(2, 2, 2) * 0.3,
    torch.randn(2, 2, 2),
    torch.randn(2, 2, 6, 3).transpose(0, 1).contiguous(),
    torch.rand(2, 2),
    torch.randn(2, 2, 3),
)
