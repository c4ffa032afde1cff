"""A decoding step with interleaved rotary positions and a cache of keys and values written in place."""

import torch
from torch import Tensor, nn


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    out = torch.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


class Decode(nn.Module):
    def __init__(self, d: int = 8, heads: int = 2, length: int = 6) -> None:
        super().__init__()
        self.heads, self.dim = heads, d // heads
        self.wq = nn.Linear(d, d, bias=False)
        self.wk = nn.Linear(d, d, bias=False)
        self.wv = nn.Linear(d, d, bias=False)
        self.wo = nn.Linear(d, d, bias=False)
        inverse = 10000.0 ** (-torch.arange(0, self.dim, 2).float() / self.dim)
        angles = torch.outer(torch.arange(length).float(), inverse)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, position: int) -> Tensor:
        b = x.size(0)
        q = self.wq(x).view(b, 1, self.heads, self.dim)
        k = self.wk(x).view(b, 1, self.heads, self.dim)
        v = self.wv(x).view(b, 1, self.heads, self.dim)
        cos, sin = self.cos[position], self.sin[position]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        keys[:, position : position + 1] = k.detach()
        values[:, position : position + 1] = v.detach()
        seen_k = keys[:, : position + 1].transpose(1, 2)
        seen_v = values[:, : position + 1].transpose(1, 2)
        scores = q.transpose(1, 2) @ seen_k.transpose(-1, -2) * self.dim**-0.5
        probs = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.wo((probs @ seen_v).transpose(1, 2).reshape(b, 1, -1))


model = Decode()
inputs = (torch.randn(2, 1, 8), torch.randn(2, 6, 2, 4), torch.randn(2, 6, 2, 4), 3)
