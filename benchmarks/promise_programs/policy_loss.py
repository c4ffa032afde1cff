"""The clipped loss of proximal policy optimisation with its entropy."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(log_p: Tensor, old: Tensor, advantage: Tensor, value: Tensor, target: Tensor) -> Tensor:
    ratio = torch.exp(log_p - old)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = ratio.clamp(0.8, 1.2) * advantage
    policy = -torch.minimum(ratio * advantage, clipped)
    error = F.smooth_l1_loss(value, target, reduction="none")
    entropy = -(log_p * log_p.exp())
    loss = policy + 0.5 * error
    loss -= 0.01 * entropy
    return loss.mean()


inputs = (
    torch.randn(12, requires_grad=True),
    torch.randn(12),
    torch.randn(12),
    torch.randn(12, requires_grad=True),
    torch.randn(12),
)
