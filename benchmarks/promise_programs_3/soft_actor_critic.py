"""The losses of soft actor-critic: a squashed Gaussian policy, twin critics, temperature."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SAC(nn.Module):
    def __init__(self, obs: int = 6, act: int = 2, hidden: int = 10) -> None:
        super().__init__()
        self.trunk = nn.Linear(obs, hidden)
        self.mu = nn.Linear(hidden, act)
        self.log_std = nn.Linear(hidden, act)
        self.q1 = nn.Sequential(nn.Linear(obs + act, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.q2 = nn.Sequential(nn.Linear(obs + act, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.log_alpha = nn.Parameter(torch.zeros(1))

    def forward(self, obs: Tensor, noise: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = torch.relu(self.trunk(obs))
        mu = self.mu(h)
        log_std = torch.tanh(self.log_std(h))
        log_std = -5.0 + 0.5 * (2.0 - -5.0) * (log_std + 1)
        std = log_std.exp()
        pre = mu + std * noise
        logp = -0.5 * ((pre - mu) / (std + 1e-8)).pow(2) - log_std - 0.5 * math.log(2 * math.pi)
        logp = logp.sum(dim=1)
        logp -= (2 * (math.log(2.0) - pre - F.softplus(-2 * pre))).sum(dim=1)
        action = torch.tanh(pre)
        both = torch.cat([obs, action], dim=-1)
        q1, q2 = self.q1(both).squeeze(-1), self.q2(both).squeeze(-1)
        q_pi = torch.min(q1, q2)
        alpha = self.log_alpha.exp().detach()
        loss_pi = (alpha * logp - q_pi).mean()
        loss_q = F.smooth_l1_loss(q1, target) + F.smooth_l1_loss(q2, target)
        loss_alpha = -(self.log_alpha * (logp + 2.0).detach()).mean()
        return loss_pi, loss_q, loss_alpha


model = SAC()
inputs = (torch.randn(8, 6), torch.randn(8, 2), torch.randn(8))
