"""ToMe: a vision block that merges similar tokens by bipartite matching, with proportional attention."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def bipartite_merge(x: Tensor, metric: Tensor, size: Tensor, r: int) -> Tuple[Tensor, Tensor]:
    metric = metric / metric.norm(p=2, dim=-1, keepdim=True)
    a, b = metric[:, ::2], metric[:, 1::2]
    scores = a @ b.transpose(-1, -2)
    scores[:, 0, :] = -1e4
    node_max, node_idx = scores.max(dim=-1)
    edge_idx = node_max.argsort(dim=-1, descending=True).unsqueeze(-1)
    unm_idx = edge_idx[:, r:].sort(dim=1)[0]
    src_idx = edge_idx[:, :r]
    dst_idx = node_idx.unsqueeze(-1).gather(1, src_idx)
    weighted = x * size
    src, dst = weighted[:, ::2], weighted[:, 1::2]
    n, _, c = src.shape
    unm = src.gather(1, unm_idx.expand(n, unm_idx.size(1), c))
    dst = dst.scatter_add(1, dst_idx.expand(n, r, c), src.gather(1, src_idx.expand(n, r, c)))
    src_size, dst_size = size[:, ::2], size[:, 1::2]
    unm_size = src_size.gather(1, unm_idx)
    dst_size = dst_size.scatter_add(1, dst_idx, src_size.gather(1, src_idx))
    merged = torch.cat([unm, dst], dim=1)
    sizes = torch.cat([unm_size, dst_size], dim=1)
    merged /= sizes
    return merged, sizes


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x: Tensor, size: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
        n, length, c = x.shape
        qkv = self.qkv(x).reshape(n, length, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)
        if size is not None:
            attn += size.log()[:, None, None, :, 0]
        attn = attn.softmax(dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(n, length, c)
        return self.proj(out), k.mean(1)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, r: int) -> None:
        super().__init__()
        self.r = r
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.fc1, self.fc2 = nn.Linear(dim, dim * 2), nn.Linear(dim * 2, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x: Tensor, size: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
        out, metric = self.attn(self.norm1(x), size)
        x = x + self.gamma * out
        if size is None:
            size = torch.ones_like(x[..., :1])
        x, size = bipartite_merge(x, metric, size, self.r)
        h = F.gelu(self.fc1(self.norm2(x)))
        h = self.fc2(h)
        h *= self.gamma
        x = x + h
        return x, size


class ToMe(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, 10, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, 2, 2), Block(dim, 2, 1)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, patches: Tensor) -> Tensor:
        x = torch.cat([self.cls.expand(patches.size(0), -1, -1), patches], 1)
        x += self.pos
        size: Optional[Tensor] = None
        for block in self.blocks:
            x, size = block(x, size)
        return self.norm(x)[:, 0]


model = ToMe()
inputs = (torch.randn(2, 9, 8),)
