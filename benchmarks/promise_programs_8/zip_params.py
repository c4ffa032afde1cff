from typing import List

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, params: List[Tensor], grads: List[Tensor]) -> Tensor:
        total = torch.zeros(1, device=params[0].device)
        for p, g in zip(params, grads):
            g = g * 0.5 + 1.0
            p.add_(g, alpha=-0.01)
            p.clamp_(-1.0, 1.0)
            total = total + p.sum()
        return total


torch.manual_seed(0)
model = Model()
inputs = (
    [torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5],
    [torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5],
)
