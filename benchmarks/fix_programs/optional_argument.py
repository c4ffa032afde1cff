"""A mask and a bias that may be None, and never are: each test for None cuts the graph; inference."""

import torch
from torch import Tensor, nn

torch.manual_seed(0)


class Scores(nn.Module):
    bias: Tensor | None

    def __init__(self, size: int = 64):
        super().__init__()
        self.register_buffer("bias", torch.zeros(size))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = x * 0.125 + 1.0
        if mask is not None:
            y = y * mask
        y = torch.tanh(y)
        bias = self.bias
        if bias is not None:
            y = y + bias
        return torch.sigmoid(y) * x


model = Scores()
inputs = (torch.randn(64, 64), torch.ones(64, 64))
