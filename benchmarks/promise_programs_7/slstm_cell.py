"""xLSTM's scalar cell: exponential gates with a stabiliser, a loop over time, a group norm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class sLSTM(nn.Module):
    def __init__(self, dim: int = 6, heads: int = 2) -> None:
        super().__init__()
        self.dim, self.heads = dim, heads
        self.wx = nn.Linear(dim, 4 * dim)
        self.wh = nn.Parameter(torch.randn(4 * dim, dim) * 0.2)
        self.norm = nn.GroupNorm(heads, dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def step(
        self, gx: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        gates = gx + F.linear(h, self.wh)
        i, f, z, o = gates.chunk(4, dim=-1)
        log_f = F.logsigmoid(f)
        m_new = torch.maximum(log_f + m, i)
        i_p = torch.exp(i - m_new)
        f_p = torch.exp(log_f + m - m_new)
        c_new = f_p * c + i_p * torch.tanh(z)
        n_new = f_p * n + i_p
        h_new = torch.sigmoid(o) * (c_new / torch.clamp(n_new, min=1e-6))
        return h_new, c_new, n_new, m_new

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        h = torch.zeros(b, self.dim, device=x.device, dtype=x.dtype)
        c, n, m = torch.zeros_like(h), torch.ones_like(h), torch.zeros_like(h)
        gx = self.wx(x)
        outs: list[Tensor] = []
        for s in range(t):
            h, c, n, m = self.step(gx[:, s], h, c, n, m)
            outs.append(h)
        y = torch.stack(outs, dim=1)
        y = self.norm(y.transpose(1, 2)).transpose(1, 2)
        left, right = self.up(y).chunk(2, dim=-1)
        y = self.down(left * F.gelu(right))
        y += x
        return y


model = sLSTM()
inputs = (torch.randn(2, 5, 6),)
