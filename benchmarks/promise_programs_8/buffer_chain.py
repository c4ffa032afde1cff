import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running", torch.ones(8, 16))

    def forward(self, x: Tensor) -> Tensor:
        r = self.running
        r.mul_(0.9).add_(x.abs() * 0.1)
        return torch.tanh(x / r)


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5,)
