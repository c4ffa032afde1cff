"""Attention coefficients of a graph attention layer."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(h: Tensor, left: Tensor, right: Tensor, adjacency: Tensor) -> Tensor:
    score = (h @ left).unsqueeze(1) + (h @ right).unsqueeze(0)
    score = F.leaky_relu(score, negative_slope=0.2)
    score = score.masked_fill(adjacency == 0, -1e9)
    score = score - score.amax(1, keepdim=True)
    weight = torch.exp(score)
    weight = weight / weight.sum(1, keepdim=True)
    out = weight @ h
    return F.elu(out)


inputs = (
    torch.randn(5, 4, requires_grad=True),
    torch.randn(4, requires_grad=True),
    torch.randn(4),
    (torch.rand(5, 5) > 0.4).float() + torch.eye(5),
)
