from typing import Optional

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        y = torch.relu(x) * 2.0
        if mask is not None:
            mask.mul_(0.5)
            y = y * mask
        return torch.tanh(y)


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5)
