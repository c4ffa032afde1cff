"""The attention of a deep interest network over a user's history, with its Dice activation and lengths."""

import torch
from torch import Tensor, nn


class Dice(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, eps=1e-8, affine=False)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        p = torch.sigmoid(self.bn(x))
        return p * x + (1.0 - p) * self.alpha * x


class InterestAttention(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4 * dim, 12)
        self.dice = Dice(12)
        self.fc2 = nn.Linear(12, 1)

    def forward(self, query: Tensor, keys: Tensor, lengths: Tensor) -> Tensor:
        b, t, d = keys.size(0), keys.size(1), keys.size(2)
        q = query.unsqueeze(1).expand(b, t, d)
        pairs = torch.cat([q, keys, q - keys, q * keys], dim=-1)
        hidden = self.dice(self.fc1(pairs).view(b * t, -1))
        score = self.fc2(hidden).view(b, t)
        mask = torch.arange(t, device=keys.device).unsqueeze(0) < lengths.unsqueeze(1)
        paddings = torch.ones_like(score) * (-(2.0**32) + 1)
        score = torch.where(mask, score, paddings) / (d**0.5)
        weight = torch.softmax(score, dim=1)
        return (weight.unsqueeze(-1) * keys).sum(dim=1)


model = InterestAttention()
inputs = (torch.randn(2, 8), torch.randn(2, 5, 8), torch.tensor([5, 2]))
