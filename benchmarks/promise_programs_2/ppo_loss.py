"""The loss of PPO with clipped values, advantages normalised, entropy of a Gaussian policy."""

import math

import torch
from torch import Tensor


def model(
    mu: Tensor, log_std: Tensor, action: Tensor, old_logp: Tensor, adv: Tensor, value: Tensor, ret: Tensor
) -> Tensor:
    std = log_std.clamp(-20, 2).exp()
    logp = (-((action - mu) ** 2) / (2 * std**2) - log_std - math.log(math.sqrt(2 * math.pi))).sum(-1)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = torch.exp(logp - old_logp)
    clipped = torch.clamp(ratio, 0.8, 1.2)
    policy_loss = -torch.min(ratio * adv, clipped * adv).mean()
    value_loss = 0.5 * torch.max((value - ret) ** 2, (value.clamp(-1, 1) - ret) ** 2).mean()
    entropy = (0.5 + 0.5 * math.log(2 * math.pi) + log_std).sum(-1).mean()
    return policy_loss + 0.5 * value_loss - 0.01 * entropy


inputs = (
    torch.randn(8, 3, requires_grad=True),
    torch.randn(8, 3, requires_grad=True),
    torch.randn(8, 3),
    torch.randn(8),
    torch.randn(8),
    torch.randn(8, requires_grad=True),
    torch.randn(8),
)
