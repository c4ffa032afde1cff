"""Mamba-2's chunked scan (state space duality) with a gated norm and a causal depthwise convolution."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def segsum(x: Tensor) -> Tensor:
    """Sums of x over all segments, with minus infinity above the diagonal."""
    size = x.size(-1)
    cumulated = torch.cumsum(x, dim=-1)
    segments = cumulated.unsqueeze(-1) - cumulated.unsqueeze(-2)
    mask = torch.tril(torch.ones(size, size, device=x.device, dtype=torch.bool))
    return segments.masked_fill(~mask, -float("inf"))


class Mamba2(nn.Module):
    def __init__(self, width: int = 6, heads: int = 2, dim: int = 4, state: int = 3, chunk: int = 4) -> None:
        super().__init__()
        self.heads, self.dim, self.state, self.chunk = heads, dim, state, chunk
        self.inner = heads * dim
        self.in_proj = nn.Linear(width, 2 * self.inner + 2 * state + heads, bias=False)
        self.conv = nn.Conv1d(
            self.inner + 2 * state, self.inner + 2 * state, 4, groups=self.inner + 2 * state
        )
        self.dt_bias = nn.Parameter(torch.rand(heads))
        self.a_log = nn.Parameter(torch.log(1 + torch.rand(heads)))
        self.d = nn.Parameter(torch.ones(heads))
        self.norm = nn.Parameter(torch.ones(self.inner))
        self.out = nn.Linear(self.inner, width, bias=False)

    def scan(
        self, x: Tensor, a: Tensor, b: Tensor, c: Tensor, first: Optional[Tensor]
    ) -> tuple[Tensor, Tensor]:
        batch, length = x.size(0), x.size(1)
        n = length // self.chunk
        x = x.view(batch, n, self.chunk, self.heads, self.dim)
        b, c = b.view(batch, n, self.chunk, self.state), c.view(batch, n, self.chunk, self.state)
        a = a.view(batch, n, self.chunk, self.heads).permute(0, 3, 1, 2)
        decay = torch.exp(segsum(a))
        scores = torch.einsum("bcln,bcsn->bcls", c, b)
        inside = torch.einsum("bhcls,bcshp->bclhp", decay * scores.unsqueeze(1), x)
        summed = torch.cumsum(a, dim=-1)
        to_end = torch.exp(summed[..., -1:] - summed)
        states = torch.einsum("bcln,bclhp->bchpn", b, x * to_end.permute(0, 2, 3, 1).unsqueeze(-1))
        state = torch.zeros_like(states[:, 0]) if first is None else first
        before = []
        for i in range(n):
            before.append(state)
            state = state * torch.exp(summed[:, :, i, -1])[:, :, None, None] + states[:, i]
        carried = torch.einsum("bcln,bchpn->bclhp", c, torch.stack(before, dim=1))
        carried *= torch.exp(summed).permute(0, 2, 3, 1).unsqueeze(-1)
        return (inside + carried).reshape(batch, length, self.heads, self.dim), state

    def forward(self, u: Tensor, first: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
        z, xbc, dt = self.in_proj(u).split([self.inner, self.inner + 2 * self.state, self.heads], dim=-1)
        xbc = F.silu(self.conv(F.pad(xbc.transpose(1, 2), [3, 0])).transpose(1, 2))
        x, b, c = xbc.split([self.inner, self.state, self.state], dim=-1)
        dt = F.softplus(dt + self.dt_bias)
        x = x.reshape(u.size(0), u.size(1), self.heads, self.dim)
        a = -torch.exp(self.a_log) * dt
        y, state = self.scan(x * dt.unsqueeze(-1), a, b.contiguous(), c.contiguous(), first)
        y = (y + self.d.unsqueeze(-1) * x).flatten(2)
        y = y * F.silu(z)
        y = y * torch.rsqrt(y.float().pow(2).mean(-1, keepdim=True) + 1e-5).type_as(y) * self.norm
        return u + self.out(y), state


model = Mamba2()
inputs = (torch.randn(2, 8, 6),)
