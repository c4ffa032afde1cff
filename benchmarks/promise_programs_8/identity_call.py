import torch
from torch import Tensor, nn


def same(x: Tensor) -> Tensor:
    return x


class Model(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = same(x)
        z.mul_(y)
        z += 1.0
        return torch.sigmoid(z) + x


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5)
