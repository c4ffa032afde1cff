"""A gated convolution block with F.glu."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.out = nn.Conv1d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x) * 0.7
        h = F.glu(h, dim=1)
        h = torch.tanh(h + 0.1)
        return (self.out(h) + x) * 0.7071


model = Gated()
inputs = (torch.randn(2, 4, 6),)
