"""Performer: random features of a softmax kernel, causal prefix sums, ReZero or pre-norm residuals."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def softmax_kernel(data: Tensor, projection: Tensor, is_query: bool, eps: float = 1e-4) -> Tensor:
    normalizer = data.shape[-1] ** -0.25
    ratio = projection.shape[0] ** -0.5
    data_dash = torch.matmul(data * normalizer, projection.transpose(0, 1))
    diag = data**2
    diag = torch.sum(diag, dim=-1)
    diag = (diag / 2.0) * (normalizer**2)
    diag = diag.unsqueeze(-1)
    if is_query:
        peak = torch.amax(data_dash, dim=-1, keepdim=True).detach()
    else:
        peak = torch.amax(data_dash, dim=(-1, -2), keepdim=True).detach()
    data_dash = ratio * (torch.exp(data_dash - diag - peak) + eps)
    return data_dash.type_as(data)


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k_sum = k.sum(dim=-2)
    d_inv = 1.0 / torch.einsum("...nd,...d->...n", q, k_sum.type_as(q))
    context = torch.einsum("...nd,...ne->...de", k, v)
    return torch.einsum("...de,...nd,...n->...ne", context, q, d_inv)


def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor, eps: float = 1e-6) -> Tensor:
    k_cumsum = k.cumsum(dim=-2) + eps
    d_inv = 1.0 / (q * k_cumsum).sum(dim=-1)
    context = torch.einsum("...nd,...ne->...nde", k, v)
    context = context.cumsum(dim=-3)
    out = torch.einsum("...nde,...nd->...ne", context, q)
    out *= d_inv.unsqueeze(-1)
    return out


class FastAttention(nn.Module):
    def __init__(self, head_dim: int, features: int, causal: bool) -> None:
        super().__init__()
        q, _ = torch.linalg.qr(torch.randn(head_dim, head_dim))
        self.register_buffer("projection", q[:features] * math.sqrt(float(head_dim)))
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = softmax_kernel(q, self.projection, True)
        k = softmax_kernel(k, self.projection, False)
        if self.causal:
            return causal_linear_attention(q, k, v)
        return linear_attention(q, k, v)


class PerformerLayer(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.fast = FastAttention(dim // heads, 4, causal)
        self.norm = nn.LayerNorm(dim)
        self.w1, self.w2 = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)
        self.g = nn.Parameter(torch.full((1,), 1e-1))
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if mask is not None:
            keep = mask[:, None, :, None]
            v = v.masked_fill(~keep, 0.0)
        attn = self.fast(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.drop(self.out(attn)) * self.g
        h, gate = self.w1(x).chunk(2, dim=-1)
        h = F.gelu(h) * gate
        h = self.w2(h)
        h *= self.g
        return x + h


class Performer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([PerformerLayer(causal=False), PerformerLayer(causal=True)])

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        if mask is not None:
            x = x * mask.unsqueeze(-1).to(x.dtype)
            return x.sum(1) / mask.sum(1, keepdim=True).to(x.dtype)
        return x.mean(1)


model = Performer()
inputs = (torch.randn(2, 6, 8), torch.tensor([[True] * 6, [True] * 4 + [False] * 2]))
