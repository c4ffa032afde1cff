"""A decoder's step with a rolling cache and attention sinks: rotary positions in the cache, grouped heads."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * h.to(x.dtype)


class StreamingLayer(nn.Module):
    def __init__(
        self, dim: int = 8, heads: int = 4, kv_heads: int = 2, sinks: int = 1, window: int = 4
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, dim // heads
        self.sinks, self.window = sinks, window
        self.norm0, self.norm1 = RMSNorm(dim), RMSNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k, self.v = nn.Linear(dim, dim // 2, bias=False), nn.Linear(dim, dim // 2, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.gate, self.up = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)
        self.register_buffer("frequency", 1.0 / 100.0 ** (torch.arange(0, self.head, 2).float() / self.head))

    def rotate(self, x: Tensor, start: int) -> Tensor:
        position = torch.arange(start, start + x.size(2), device=x.device)
        angle = position.to(x.dtype)[:, None] * self.frequency[None, :]
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        out = torch.stack([a * cos - b * sin, a * sin + b * cos], -1)
        return out.flatten(-2)

    def rolled(self, old: Tensor, new: Tensor) -> Tensor:
        both = torch.cat([old, new], 2)
        if both.size(2) > self.sinks + self.window:
            both = torch.cat([both[:, :, : self.sinks], both[:, :, -self.window :]], 2)
        return both

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor] = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        n, length, dim = x.shape
        h = self.norm0(x)
        q = self.q(h).view(n, length, self.heads, self.head).transpose(1, 2)
        k = self.k(h).view(n, length, self.kv_heads, self.head).transpose(1, 2)
        v = self.v(h).view(n, length, self.kv_heads, self.head).transpose(1, 2)
        keys, values = self.rolled(keys, k), self.rolled(values, v)
        count = keys.size(2)
        q = self.rotate(q, count - length)
        r = self.rotate(keys, 0)
        r = r.repeat_interleave(self.heads // self.kv_heads, 1)
        w = values.repeat_interleave(self.heads // self.kv_heads, 1)
        scores = q @ r.transpose(-1, -2)
        scores *= self.head**-0.5
        if bias is not None:
            scores += bias[..., :count]
        scores = scores.float().softmax(-1).to(x.dtype)
        h = self.o((scores @ w).transpose(1, 2).reshape(n, length, dim))
        h += x
        m = self.norm1(h)
        m = F.silu(self.gate(m)) * self.up(m)
        m = self.down(m)
        m.add_(h)
        return m, keys, values


model = StreamingLayer()
inputs = (torch.randn(2, 1, 8), torch.randn(2, 2, 5, 2), torch.randn(2, 2, 5, 2), torch.zeros(1, 1, 1, 6))
