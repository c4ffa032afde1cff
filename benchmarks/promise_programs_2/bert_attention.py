"""Self-attention of BERT, with a mask of the padding."""

import math

import torch
from torch import Tensor, nn


class BertSelfAttention(nn.Module):
    def __init__(self, hidden: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.head_size = hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(0.0)
        self.dense = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        x = x.view(x.size(0), x.size(1), self.heads, self.head_size)
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        extended = mask[:, None, None, :].to(hidden.dtype)
        extended = (1.0 - extended) * -10000.0
        q = self.transpose_for_scores(self.query(hidden))
        k = self.transpose_for_scores(self.key(hidden))
        v = self.transpose_for_scores(self.value(hidden))
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / math.sqrt(self.head_size)
        scores = scores + extended
        probs = nn.functional.softmax(scores, dim=-1)
        probs = self.dropout(probs)
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        context = context.view(context.size(0), context.size(1), -1)
        return self.norm(self.dropout(self.dense(context)) + hidden)


model = BertSelfAttention()
inputs = (torch.randn(2, 5, 16), torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]))
