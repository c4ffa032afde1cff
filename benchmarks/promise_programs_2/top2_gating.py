"""Gating of a mixture of experts by the two best, with noise and a balance loss."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Top2Gate(nn.Module):
    def __init__(self, dim: int = 6, experts: int = 4) -> None:
        super().__init__()
        self.wg = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, 8) * 0.1)
        self.w2 = nn.Parameter(torch.randn(experts, 8, dim) * 0.1)
        self.experts = experts

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.wg(x)
        logits = logits + noise * F.softplus(logits)
        gates = F.softmax(logits, dim=1)
        top, index = torch.topk(gates, 2, dim=1)
        top = top / (top.sum(dim=-1, keepdim=True) + 1e-9)
        mask = F.one_hot(index, self.experts).float()
        combine = (mask * top.unsqueeze(-1)).sum(1)
        me = gates.mean(dim=0)
        ce = mask[:, 0].mean(dim=0)
        balance = (me * ce).sum() * self.experts
        h = torch.einsum("td,edh->eth", x, self.w1)
        h = F.gelu(h, approximate="tanh")
        out = torch.einsum("eth,ehd->etd", h, self.w2)
        y = (out * combine.t().unsqueeze(-1)).sum(0)
        return y, balance


model = Top2Gate()
inputs = (torch.randn(5, 6), torch.randn(5, 4))
