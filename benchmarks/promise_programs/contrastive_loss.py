"""Contrastive loss of pairs with a margin."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(a: Tensor, b: Tensor, same: Tensor) -> Tensor:
    a = a / a.norm(2, dim=-1, keepdim=True).clamp_min(1e-6)
    b = b / b.norm(2, dim=-1, keepdim=True).clamp_min(1e-6)
    square = (a - b).square().sum(-1)
    distance = torch.sqrt(square + 1e-8)
    hinge = F.relu(1.0 - distance)
    near = same * square
    far = (1.0 - same) * hinge.pow(2)
    return ((near + far) * 0.5).mean()


inputs = (
    torch.randn(6, 8, requires_grad=True),
    torch.randn(6, 8, requires_grad=True),
    (torch.rand(6) > 0.5).float(),
)
