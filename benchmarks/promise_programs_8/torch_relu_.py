import torch
from torch import Tensor, nn


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.relu_(x)
        y = x * 2.0
        torch.sigmoid_(y)
        return torch.tanh(y) * x


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(8, 16),)
