"""A decoder layer as Gemma 2 has it: norms with an offset, capped logits, a sliding window, a gated MLP."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class OffsetNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        output = self._norm(x.float())
        output = output * (1.0 + self.weight.float())
        return output.type_as(x)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, heads, n, d = x.shape
    return x[:, :, None, :, :].expand(b, heads, n_rep, n, d).reshape(b, heads * n_rep, n, d)


class Layer(nn.Module):
    def __init__(self, dim: int = 16, heads: int = 4, kv_heads: int = 2, window: int = 3) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.window = heads, kv_heads, dim // heads, window
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.pre, self.post = OffsetNorm(dim), OffsetNorm(dim)
        self.pre_ff, self.post_ff = OffsetNorm(dim), OffsetNorm(dim)
        self.gate_proj = nn.Linear(dim, 24, bias=False)
        self.up_proj = nn.Linear(dim, 24, bias=False)
        self.down_proj = nn.Linear(24, dim, bias=False)

    def attention(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.kv_heads, self.head_dim).transpose(1, 2)
        k, v = repeat_kv(k, self.heads // self.kv_heads), repeat_kv(v, self.heads // self.kv_heads)
        attn = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        attn = attn / 50.0
        attn = torch.tanh(attn)
        attn = attn * 50.0
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        far = torch.ones(n, n, dtype=torch.bool, device=x.device).tril(-self.window)
        attn = attn.masked_fill(causal | far, -2.3819763e38)
        attn = F.softmax(attn, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(b, n, -1)
        return self.o_proj(out)

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        x = self.post(self.attention(self.pre(x)))
        x = residual + x
        residual = x
        x = self.pre_ff(x)
        x = self.down_proj(F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))
        return residual + self.post_ff(x)


model = Layer()
inputs = (torch.randn(2, 6, 16),)
