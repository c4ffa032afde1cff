import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.5
        z = y.view(-1)
        y.mul_(2.0)
        y += 1.0
        return torch.tanh(z) + y.sum()


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5,)
