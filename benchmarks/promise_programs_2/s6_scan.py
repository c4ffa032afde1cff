"""The selective scan of Mamba by a loop, with softplus, a skip and a gate."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SelectiveScan(nn.Module):
    def __init__(self, d: int = 4, n: int = 3) -> None:
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float()).repeat(d, 1))
        self.D = nn.Parameter(torch.ones(d))
        self.x_proj = nn.Linear(d, 2 * n + d)
        self.n = n

    def forward(self, u: Tensor, z: Tensor) -> Tensor:
        b, length, d = u.shape
        A = -torch.exp(self.A_log.float())
        delta, B, C = torch.split(self.x_proj(u), [d, self.n, self.n], dim=-1)
        delta = F.softplus(delta)
        deltaA = torch.exp(delta.unsqueeze(-1) * A)
        deltaB_u = delta.unsqueeze(-1) * B.unsqueeze(2) * u.unsqueeze(-1)
        x = torch.zeros(b, d, self.n)
        ys: list[Tensor] = []
        for i in range(length):
            x = deltaA[:, i] * x + deltaB_u[:, i]
            ys.append((x * C[:, i].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, dim=1)
        y = y + u * self.D
        return y * F.silu(z)


model = SelectiveScan()
inputs = (torch.randn(2, 4, 4), torch.randn(2, 4, 4))
