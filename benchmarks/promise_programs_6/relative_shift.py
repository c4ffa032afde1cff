"""Attention of Transformer-XL with relative positions, its shift, memory and a gated residual (GTrXL)."""

import torch
from torch import Tensor, nn


class RelAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.r = nn.Linear(dim, dim, bias=False)
        self.u = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.v = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.o = nn.Linear(dim, dim, bias=False)
        self.wr, self.ur = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wz, self.uz = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wg, self.ug = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.bg = 0.1

    def rel_shift(self, x: Tensor) -> Tensor:
        b, h, t, k = x.shape
        x = torch.cat([torch.zeros(b, h, t, 1, dtype=x.dtype, device=x.device), x], dim=-1)
        return x.view(b, h, k + 1, t)[:, :, 1:].view(b, h, t, k)

    def gate(self, x: Tensor, y: Tensor) -> Tensor:
        r = torch.sigmoid(self.wr(y) + self.ur(x))
        z = torch.sigmoid(self.wz(y) + self.uz(x) - self.bg)
        h = torch.tanh(self.wg(y) + self.ug(torch.mul(r, x)))
        return torch.mul(1 - z, x) + torch.mul(z, h)

    def forward(self, x: Tensor, memory: Tensor, pos: Tensor) -> Tensor:
        b, t, c = x.shape
        full = torch.cat([memory.detach(), x], dim=1)
        q = self.q(x).view(b, t, self.heads, self.d)
        k, v = self.kv(full).chunk(2, dim=-1)
        k = k.view(b, -1, self.heads, self.d).transpose(1, 2)
        v = v.view(b, -1, self.heads, self.d).transpose(1, 2)
        r = self.r(pos).view(-1, self.heads, self.d).transpose(0, 1)
        content = (q + self.u).transpose(1, 2) @ k.transpose(-2, -1)
        position = self.rel_shift((q + self.v).transpose(1, 2) @ r.transpose(-2, -1))
        scores = (content + position).mul_(self.d**-0.5)
        causal = torch.triu(torch.ones(t, k.size(2), device=x.device), diagonal=1 + memory.size(1)) > 0
        scores.masked_fill_(causal, float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        y = self.o((attn @ v).transpose(1, 2).reshape(b, t, c))
        return self.gate(x, torch.relu(y))


model = RelAttention()
inputs = (torch.randn(2, 3, 8), torch.randn(2, 2, 8), torch.randn(5, 8))
