"""Gated linear attention beside a retention layer: a recurrent state, decay masks, group norm, SwiGLU."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GatedLinearAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv, self.gate = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.alpha = nn.Sequential(nn.Linear(dim, 4, bias=False), nn.Linear(4, dim))
        self.out = nn.Linear(dim, dim, bias=False)
        self.tau = 16.0

    def forward(self, x: Tensor, state: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.head_dim).unbind(2)
        q = q * self.head_dim**-0.5
        log_alpha = F.logsigmoid(self.alpha(x)) / self.tau
        alpha = log_alpha.view(b, t, self.heads, self.head_dim).exp()
        if state is None:
            state = torch.zeros(b, self.heads, self.head_dim, self.head_dim, dtype=x.dtype, device=x.device)
        outputs = torch.empty_like(q)
        for i in range(t):
            state = state * alpha[:, i].unsqueeze(-1) + k[:, i].unsqueeze(-1) * v[:, i].unsqueeze(-2)
            outputs[:, i] = (q[:, i].unsqueeze(-1) * state).sum(-2)
        variance = outputs.float().pow(2).mean(-1, keepdim=True)
        normed = (outputs * torch.rsqrt(variance + 1e-5)).type_as(x)
        gate = self.gate(x)
        y = normed.reshape(b, t, d) * (gate * torch.sigmoid(gate))
        return self.out(y), state


class Retention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv, self.norm = nn.Linear(dim, 3 * dim), nn.GroupNorm(heads, dim, affine=False)
        self.register_buffer("decay", torch.log(1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float))))

    def forward(self, x: Tensor, padding: Optional[Tensor] = None) -> Tensor:
        b, t, d = x.shape
        index = torch.arange(t, device=x.device, dtype=x.dtype)
        distance = index[:, None] - index[None, :]
        mask = torch.exp(distance * self.decay[:, None, None])
        mask = mask.masked_fill(distance < 0, 0.0)
        mask = mask / mask.sum(dim=-1, keepdim=True).sqrt()
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.head_dim**-0.5
        scores *= mask
        if padding is not None:
            scores.masked_fill_(padding[:, None, None, :], 0.0)
        scores = scores / scores.detach().abs().sum(dim=-1, keepdim=True).clamp(min=1.0)
        y = torch.matmul(scores, v).transpose(1, 2).reshape(b * t, d)
        return self.norm(y).view(b, t, d)


class Block(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.attention, self.retention = GatedLinearAttention(dim), Retention(dim)
        self.up, self.down = nn.Linear(dim, 32), nn.Linear(16, dim)

    def forward(self, x: Tensor, padding: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
        y, state = self.attention(x)
        y += x
        x = y + self.retention(y, padding)
        value, gate = self.up(x).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value), state


model = Block()
inputs = (torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 4 + [True]]))
