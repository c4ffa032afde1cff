"""One layer of a graph net: messages gathered, weighted, scattered."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Linear(6, 6)
        self.update = nn.Linear(6, 6)

    def forward(self, x: Tensor, source: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        sent = F.relu(self.message(x)[source] * weight.unsqueeze(-1) + 0.1)
        total = torch.zeros_like(x)
        total.index_add_(0, target, sent)
        degree = torch.zeros(x.size(0)).index_add(0, target, weight)
        mean = total / degree.clamp_min(1.0).unsqueeze(-1)
        return torch.sigmoid(self.update(mean)) * x + mean.square()


model = Layer()
inputs = (torch.randn(5, 6), torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 0, 4]), torch.rand(4))
