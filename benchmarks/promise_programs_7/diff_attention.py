"""Differential attention: two softmax maps subtracted by a learnt lambda, a norm, rotary positions."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x[..., ::2], x[..., 1::2]
    o1 = x1 * cos - x2 * sin
    o2 = x1 * sin + x2 * cos
    return torch.stack((o1, o2), dim=-1).flatten(-2)


class DiffAttention(nn.Module):
    def __init__(self, dim: int = 16, heads: int = 2, depth: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads // 2
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lambda_q1 = nn.Parameter(torch.randn(self.head_dim) * 0.1)
        self.lambda_k1 = nn.Parameter(torch.randn(self.head_dim) * 0.1)
        self.lambda_q2 = nn.Parameter(torch.randn(self.head_dim) * 0.1)
        self.lambda_k2 = nn.Parameter(torch.randn(self.head_dim) * 0.1)
        self.subln = nn.Parameter(torch.ones(2 * self.head_dim))

    def norm(self, x: Tensor) -> Tensor:
        out = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
        return out.type_as(x) * self.subln

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, _ = x.size()
        q = self.q_proj(x).view(b, n, 2 * self.heads, self.head_dim)
        k = self.k_proj(x).view(b, n, 2 * self.heads, self.head_dim)
        v = self.v_proj(x).view(b, n, self.heads, 2 * self.head_dim)
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q *= self.scaling
        weights = torch.matmul(q, k.transpose(-1, -2))
        mask = torch.triu(torch.zeros([n, n], device=x.device).fill_(float("-inf")).type_as(weights), 1)
        weights = torch.nan_to_num(weights)
        weights += mask
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).type_as(weights)
        lambda_1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1, dim=-1).float()).type_as(q)
        lambda_2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2, dim=-1).float()).type_as(q)
        lambda_full = lambda_1 - lambda_2 + self.lambda_init
        weights = weights.view(b, self.heads, 2, n, n)
        weights = weights[:, :, 0] - lambda_full * weights[:, :, 1]
        attn = self.norm(torch.matmul(weights, v))
        attn = attn * (1 - self.lambda_init)
        return self.out_proj(attn.transpose(1, 2).reshape(b, n, self.heads * 2 * self.head_dim))


model = DiffAttention()
angles = torch.arange(6.0)[:, None] * torch.tensor([1.0, 0.01])
inputs = (torch.randn(2, 6, 16), angles.cos()[:, None, :], angles.sin()[:, None, :])
