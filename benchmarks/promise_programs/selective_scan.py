"""A selective state-space scan over time."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    delta = F.softplus(delta)
    state = torch.zeros(u.size(0), u.size(2), a.size(1)).type_as(u)
    outputs = []
    for t in range(3):
        step = delta[:, t].unsqueeze(-1)
        decay = torch.exp(step * a)
        drive = step * b[:, t].unsqueeze(1) * u[:, t].unsqueeze(-1)
        state = decay * state + drive
        outputs.append((state * c[:, t].unsqueeze(1)).sum(-1))
    y = torch.stack(outputs, 1)
    return y * F.silu(u) + u


inputs = (
    torch.randn(2, 3, 4, requires_grad=True),
    torch.randn(2, 3, 4, requires_grad=True),
    -torch.rand(4, 3),
    torch.randn(2, 3, 3),
    torch.randn(2, 3, 3),
)
