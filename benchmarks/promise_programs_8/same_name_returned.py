from typing import Tuple

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = torch.relu(x) + 0.5
        saved = y
        y += 1.0
        y.mul_(x)
        return torch.tanh(y), saved * 2.0


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5,)
