"""Attention of T5 with relative position buckets, after its RMS norm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class T5LayerNorm(nn.Module):
    def __init__(self, hidden: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.variance_epsilon = eps

    def forward(self, hidden_states: Tensor) -> Tensor:
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states


class T5Attention(nn.Module):
    def __init__(self, d_model: int = 12, n_heads: int = 2, buckets: int = 8) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_kv = d_model // n_heads
        self.buckets = buckets
        self.norm = T5LayerNorm(d_model)
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.k = nn.Linear(d_model, d_model, bias=False)
        self.v = nn.Linear(d_model, d_model, bias=False)
        self.o = nn.Linear(d_model, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(buckets, n_heads)

    def bucket(self, length: int, device: torch.device) -> Tensor:
        context = torch.arange(length, device=device)[:, None]
        memory = torch.arange(length, device=device)[None, :]
        relative = memory - context
        half = self.buckets // 2
        buckets = (relative > 0).to(torch.long) * half
        relative = torch.abs(relative)
        exact = half // 2
        is_small = relative < exact
        large = exact + (torch.log(relative.float() / exact + 1e-6) * 1.5).to(torch.long)
        large = torch.min(large, torch.full_like(large, half - 1))
        buckets += torch.where(is_small, relative, large)
        return buckets

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, n, self.n_heads, self.d_kv).transpose(1, 2)
        k = self.k(h).view(b, n, self.n_heads, self.d_kv).transpose(1, 2)
        v = self.v(h).view(b, n, self.n_heads, self.d_kv).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(3, 2))
        bias = self.relative_attention_bias(self.bucket(n, x.device)).permute([2, 0, 1]).unsqueeze(0)
        scores += bias
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        out = torch.matmul(weights, v).transpose(1, 2).contiguous().view(b, n, d)
        return x + self.o(out)


model = T5Attention()
inputs = (torch.randn(2, 5, 12),)
