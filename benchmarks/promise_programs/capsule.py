"""The squash of capsules and one round of routing."""

import torch
from torch import Tensor


def squash(s: Tensor) -> Tensor:
    norm = s.square().sum(-1, keepdim=True)
    return norm / (1.0 + norm) * s / torch.sqrt(norm + 1e-8)


def model(u: Tensor, b: Tensor) -> Tensor:
    c = torch.softmax(b, 1)
    s = (c.unsqueeze(-1) * u).sum(0)
    v = squash(s)
    agreement = (u * v.unsqueeze(0)).sum(-1)
    b = b + agreement
    c = torch.softmax(b, 1)
    return squash((c.unsqueeze(-1) * u).sum(0)) * 2.0


inputs = (torch.randn(4, 3, 5, requires_grad=True), torch.zeros(4, 3))
