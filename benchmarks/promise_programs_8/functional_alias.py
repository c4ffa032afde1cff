import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = x.cumsum(0)
        skip = h
        y = F.relu(h, inplace=True) * 2.0
        return y + skip


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(8, 16),)
