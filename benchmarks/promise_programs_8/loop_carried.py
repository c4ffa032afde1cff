import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = x
        for i in range(3):
            h.mul_(0.5).add_(y)
        return torch.tanh(h) - x


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5)
