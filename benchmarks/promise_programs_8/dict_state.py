from typing import Dict

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, state: Dict[str, Tensor]) -> Tensor:
        m = state["m"]
        m.mul_(0.9).add_(x * 0.1)
        v = state["v"]
        v.mul_(0.99).addcmul_(x, x, value=0.01)
        return m / (v.sqrt() + 1e-8)


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, {"m": torch.rand(8, 16) + 0.5, "v": torch.rand(8, 16) + 0.5})
