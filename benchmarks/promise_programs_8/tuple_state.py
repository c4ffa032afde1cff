from typing import Tuple

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tensor:
        m, v = state
        m.mul_(0.9).add_(x)
        v += m * 0.1
        return torch.tanh(m + v)


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5))
