"""Causal attention with ALiBi biases, a sliding window and a soft cap on its scores."""

import math

import torch
from torch import Tensor, nn


class AlibiAttention(nn.Module):
    def __init__(self, d: int = 8, heads: int = 2, window: int = 3) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.q_proj = nn.Linear(d, d, bias=False)
        self.k_proj = nn.Linear(d, d, bias=False)
        self.v_proj = nn.Linear(d, d, bias=False)
        self.o_proj = nn.Linear(d, d, bias=False)
        slopes = torch.tensor([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)])
        self.register_buffer("slopes", slopes.view(heads, 1, 1))
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q = self.q_proj(x).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        scores = 20.0 * torch.tanh(scores / 20.0)
        pos = torch.arange(n, device=x.device)
        distance = pos[None, :] - pos[:, None]
        scores = scores + self.slopes * distance
        allowed = (distance <= 0) & (distance > -self.window)
        scores = scores.masked_fill(~allowed, float("-inf"))
        weights = self.dropout(torch.softmax(scores.float(), dim=-1).type_as(scores))
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(b, n, d))


model = AlibiAttention()
inputs = (torch.randn(2, 6, 8),)
