"""Sparse attention as a mask: a sliding window, global tokens, padding, a bias by distance."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SparseAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, window: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.window = window
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.fade = nn.Parameter(torch.tensor([0.5, 1.0]))
        self.scale = (dim // heads) ** -0.5

    def allowed(self, n: int, is_global: Tensor) -> Tensor:
        i = torch.arange(n, device=is_global.device)
        near = (i[:, None] - i[None, :]).abs() <= self.window
        to_global = is_global[:, None, :]
        from_global = is_global[:, :, None]
        return near[None] | to_global | from_global

    def forward(self, x: Tensor, is_global: Tensor, padding: Tensor) -> Tensor:
        b, n, d = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        pos = torch.arange(n, device=x.device, dtype=x.dtype)
        distance = (pos[:, None] - pos[None, :]).abs_()
        attn -= F.softplus(self.fade)[None, :, None, None] * torch.log1p(distance)
        mask = self.allowed(n, is_global) & ~padding[:, None, :]
        attn = attn.masked_fill(~mask.unsqueeze(1), float("-inf"))
        attn = attn - attn.amax(dim=-1, keepdim=True).detach()
        attn = attn.exp()
        attn = attn / (attn.sum(dim=-1, keepdim=True) + 1e-6)
        out = (attn @ v).transpose(1, 2).reshape(b, n, d)
        out = self.proj(out)
        out = out.masked_fill_(padding.unsqueeze(-1), 0.0)
        return x + out


model = SparseAttention()
inputs = (
    torch.randn(2, 7, 8),
    torch.tensor([[True] + [False] * 6, [True, True] + [False] * 5]),
    torch.tensor([[False] * 7, [False] * 5 + [True] * 2]),
)
