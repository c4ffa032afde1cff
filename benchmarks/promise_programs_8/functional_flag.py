import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = x * 0.5 - 0.25
        out = F.relu(h, inplace=True)
        y = torch.tanh(out) * 2.0
        return y + h


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(8, 16),)
