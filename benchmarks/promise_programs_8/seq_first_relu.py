import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seq = nn.Sequential(nn.ReLU(inplace=True), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        h = x.cumsum(0)
        y = self.seq(h) * 2.0
        return torch.tanh(y) + h


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(4, 8),)
