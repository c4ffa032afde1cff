import torch
from torch import Tensor, nn


class Sub(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return x
        return x * 2.0


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sub = Sub()

    def forward(self, x: Tensor) -> Tensor:
        h = x.cumsum(0)
        v = self.sub(h)
        v += 1.0
        v *= 2.0
        return torch.tanh(v) * 2.0 + h


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(4, 8),)
