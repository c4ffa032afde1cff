from typing import List

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, h0: Tensor) -> Tensor:
        outs: List[Tensor] = []
        h = h0 * 1.0
        for i in range(4):
            h = torch.tanh(h + x)
            h *= 0.5
            h += x
            outs.append(h)
        return torch.stack(outs).mean(0) * 2.0


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(8, 16), torch.randn(8, 16))
