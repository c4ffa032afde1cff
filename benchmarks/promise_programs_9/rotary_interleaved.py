"""GPT-J's attention: interleaved rotary position embeddings from a cache, a causal mask kept as a buffer."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotate_every_two(x: Tensor) -> Tensor:
    x1 = x[:, :, :, ::2]
    x2 = x[:, :, :, 1::2]
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(-2)


def apply_rotary(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
    sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[:, :, None, :], 2, 3)
    return (x * cos) + (rotate_every_two(x) * sin)


class Attention(nn.Module):
    def __init__(self, dim: int = 12, heads: int = 2, rotary: int = 4, length: int = 16) -> None:
        super().__init__()
        self.heads, self.head_dim, self.rotary = heads, dim // heads, rotary
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.scale_attn = math.sqrt(self.head_dim)
        freq = 1.0 / (10000 ** (torch.arange(0, rotary, 2).float() / rotary))
        table = torch.outer(torch.arange(length).float(), freq)
        self.register_buffer("cached", torch.cat((table.sin(), table.cos()), dim=1), persistent=False)
        self.register_buffer("bias", torch.tril(torch.ones(length, length, dtype=torch.bool))[None, None])
        self.fc_in = nn.Linear(dim, 2 * dim)
        self.fc_out = nn.Linear(2 * dim, dim)
        self.ln = nn.LayerNorm(dim)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, self.head_dim)

    def forward(self, hidden: Tensor, position_ids: Tensor, attention_mask: Tensor) -> Tensor:
        residual = hidden
        hidden = self.ln(hidden)
        query, key, value = (
            self.split(self.q_proj(hidden)),
            self.split(self.k_proj(hidden)),
            self.v_proj(hidden),
        )
        sincos = self.cached[position_ids]
        sin, cos = torch.chunk(sincos, 2, dim=-1)
        k_rot, k_pass = key[:, :, :, : self.rotary], key[:, :, :, self.rotary :]
        q_rot, q_pass = query[:, :, :, : self.rotary], query[:, :, :, self.rotary :]
        key = torch.cat([apply_rotary(k_rot, sin, cos), k_pass], dim=-1).permute(0, 2, 1, 3)
        query = torch.cat([apply_rotary(q_rot, sin, cos), q_pass], dim=-1).permute(0, 2, 1, 3)
        value = self.split(value).permute(0, 2, 1, 3)
        weights = torch.matmul(query.to(torch.float32), key.to(torch.float32).transpose(-1, -2))
        weights = weights / self.scale_attn
        n = weights.size(-1)
        mask_value = -1e9
        weights = torch.where(self.bias[:, :, :n, :n], weights, mask_value)
        weights += (1.0 - attention_mask[:, None, None, :].to(weights.dtype)) * mask_value
        weights = F.softmax(weights, dim=-1).to(value.dtype)
        out = torch.matmul(weights, value).permute(0, 2, 1, 3).reshape(hidden.shape)
        out = self.out_proj(out)
        h = self.fc_in(hidden)
        h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
        return out + self.fc_out(h) + residual


model = Attention()
inputs = (
    torch.randn(2, 5, 12),
    torch.arange(5).repeat(2, 1),
    torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]),
)
