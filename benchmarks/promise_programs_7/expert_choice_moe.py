"""Experts that choose their tokens: capacity, one product for all experts, z loss, a shared expert."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ExpertChoiceMoE(nn.Module):
    def __init__(self, dim: int = 8, hidden: int = 12, experts: int = 4, capacity: float = 2.0) -> None:
        super().__init__()
        self.experts = experts
        self.capacity = capacity
        self.gate = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) / math.sqrt(dim))
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) / math.sqrt(hidden))
        self.w3 = nn.Parameter(torch.randn(experts, dim, hidden) / math.sqrt(dim))
        self.shared_in = nn.Linear(dim, hidden)
        self.shared_out = nn.Linear(hidden, dim)
        self.register_buffer("usage", torch.zeros(experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, s, d = x.shape
        tokens = x.reshape(-1, d)
        n = tokens.size(0)
        k = int(n * self.capacity / self.experts)
        logits = self.gate(tokens).float()
        scores = F.softmax(logits, dim=-1).to(x.dtype)
        g, idx = torch.topk(scores.t(), k, dim=-1)
        picked = tokens[idx.reshape(-1)].view(self.experts, k, d)
        h = F.silu(torch.bmm(picked, self.w1)) * torch.bmm(picked, self.w3)
        out = torch.bmm(h, self.w2)
        out = out * g.unsqueeze(-1)
        combined = torch.zeros_like(tokens)
        combined.index_add_(0, idx.reshape(-1), out.reshape(-1, d))
        z_loss = torch.logsumexp(logits, dim=-1).pow(2).mean() * 1e-3
        load = torch.zeros(n, device=x.device).index_add_(
            0, idx.reshape(-1), torch.ones(idx.numel(), device=x.device)
        )
        dropped = (load == 0).float()
        if self.training:
            self.usage.mul_(0.99).add_(g.detach().sum(dim=-1), alpha=0.01)
        shared = self.shared_out(F.gelu(self.shared_in(tokens)))
        combined += shared * (1.0 + dropped.unsqueeze(-1))
        return combined.view(b, s, d), z_loss


model = ExpertChoiceMoE()
inputs = (torch.randn(2, 6, 8),)
