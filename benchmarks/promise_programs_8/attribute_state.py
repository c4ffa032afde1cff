import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(8, 16))
        self.count: Tensor = torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        t = self.total
        t += x * 0.5
        c = self.count
        c.add_(1.0)
        return torch.tanh(t / c)


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5,)
