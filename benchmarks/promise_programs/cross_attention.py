"""Cross attention of a decoder with padded memory."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(6, 6)
        self.key = nn.Linear(6, 6)
        self.value = nn.Linear(6, 6)

    def forward(self, x: Tensor, memory: Tensor, padded: Tensor) -> Tensor:
        score = self.query(x) @ self.key(memory).transpose(1, 2) / 2.449
        score = score.masked_fill(padded.unsqueeze(1), -1e4)
        weight = torch.sigmoid(score * 2.0) * 3.0
        weight = weight.masked_fill(padded.unsqueeze(1), 0.0)
        out = weight @ self.value(memory)
        return x + F.gelu(out)


model = CrossAttention()
inputs = (torch.randn(2, 3, 6), torch.randn(2, 4, 6), torch.rand(2, 4) > 0.6)
