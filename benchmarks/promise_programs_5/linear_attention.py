"""Causal linear attention with the feature map of elu, and a focused variant of it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LinearAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.scale = nn.Parameter(torch.zeros(1, 1, dim // heads))

    def forward(self, x: Tensor, pad: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        q = F.elu(q) + 1
        k = F.elu(k) + 1
        k = k.masked_fill(pad[:, None, :, None], 0.0)
        scale = F.softplus(self.scale)
        q = q / scale
        k = k / scale
        q_norm = q.norm(p=2, dim=-1, keepdim=True)
        q = q**3
        q = (q / q.norm(p=2, dim=-1, keepdim=True)) * q_norm
        z = 1 / (torch.einsum("bhnd,bhd->bhn", q, k.sum(dim=2)) + 1e-6)
        kv = torch.einsum("bhnd,bhne->bhde", k, v)
        out = torch.einsum("bhnd,bhde,bhn->bhne", q, kv, z)
        return self.proj(out.transpose(1, 2).reshape(b, n, c))


model = LinearAttention()
inputs = (torch.randn(2, 5, 8), torch.arange(5).expand(2, 5) >= torch.tensor([[5], [3]]))
