"""A rollout's advantages and an actor-critic step: running normalisation, GAE backwards."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RunningMeanStd(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                flat = x.flatten(0, 1)
                n = flat.size(0)
                mean, var = flat.mean(0), flat.var(0, unbiased=False)
                delta = mean - self.mean
                total = self.count + n
                m2 = self.var * self.count + var * n + delta**2 * self.count * n / total
                self.mean += delta * n / total
                self.var.copy_(m2 / total)
                self.count.copy_(total)
        y = (x - self.mean) / torch.sqrt(self.var + 1e-5)
        return y.clamp_(-5.0, 5.0)


def gae(rewards: Tensor, values: Tensor, dones: Tensor, last: Tensor, gamma: float, lam: float) -> Tensor:
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(last)
    steps = rewards.size(0)
    for k in range(steps):
        t = steps - 1 - k
        following = last if t == steps - 1 else values[t + 1]
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * following * alive - values[t]
        running = delta + gamma * lam * alive * running
        advantages[t] = running
    return advantages


class ActorCritic(nn.Module):
    def __init__(self, obs: int = 5, actions: int = 2, hidden: int = 8) -> None:
        super().__init__()
        self.norm = RunningMeanStd(obs)
        self.body = nn.Sequential(
            nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.ELU(inplace=True)
        )
        self.mu, self.value = nn.Linear(hidden, actions), nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.full((actions,), -0.5))
        self.clip, self.entropy_coef, self.value_coef = 0.2, 0.01, 0.5

    def forward(
        self,
        obs: Tensor,
        actions: Tensor,
        old_logp: Tensor,
        old_values: Tensor,
        rewards: Tensor,
        dones: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        h = self.body(self.norm(obs))
        mu, value = self.mu(h), self.value(h).squeeze(-1)
        with torch.no_grad():
            adv = gae(rewards, old_values, dones, value[-1], 0.99, 0.95)
            returns = adv + old_values
            adv -= adv.mean()
            adv /= adv.std() + 1e-8
        log_std = self.log_std.clamp(-5.0, 2.0).expand_as(mu)
        z = (actions - mu) / log_std.exp()
        logp = (-0.5 * z * z - log_std - 0.5 * math.log(2.0 * math.pi)).sum(-1)
        logp -= (2.0 * (math.log(2.0) - actions - F.softplus(-2.0 * actions))).sum(-1)
        ratio = (logp - old_logp).clamp_(-10.0, 10.0).exp()
        surrogate = torch.min(ratio * adv, ratio.clamp(1.0 - self.clip, 1.0 + self.clip) * adv)
        clipped = old_values + (value - old_values).clamp(-self.clip, self.clip)
        value_loss = 0.5 * torch.max((value - returns).pow(2), (clipped - returns).pow(2)).mean()
        entropy = (log_std + 0.5 + 0.5 * math.log(2.0 * math.pi)).sum(-1).mean()
        loss = -surrogate.mean() + self.value_coef * value_loss - self.entropy_coef * entropy
        with torch.no_grad():
            log_ratio = logp - old_logp
            kl = ((log_ratio.exp() - 1.0) - log_ratio).mean()
            fraction = ((ratio - 1.0).abs() > self.clip).float().mean()
        return loss, kl, fraction


model = ActorCritic()
inputs = (
    torch.randn(6, 3, 5),
    torch.randn(6, 3, 2),
    torch.randn(6, 3),
    torch.randn(6, 3),
    torch.randn(6, 3),
    (torch.rand(6, 3) < 0.2).float(),
)
