"""A layer of experts with top-1 routing, jitter of none, an auxiliary loss and dense dispatch."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SwitchMoE(nn.Module):
    def __init__(self, d: int = 8, hidden: int = 12, experts: int = 3) -> None:
        super().__init__()
        self.experts = experts
        self.router = nn.Linear(d, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, d, hidden) * 0.2)
        self.b1 = nn.Parameter(torch.zeros(experts, 1, hidden))
        self.w2 = nn.Parameter(torch.randn(experts, hidden, d) * 0.2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, s, d = x.shape
        tokens = x.reshape(-1, d)
        logits = self.router(tokens)
        probs = F.softmax(logits, dim=-1)
        gate, index = probs.max(dim=-1)
        mask = F.one_hot(index, self.experts).to(x.dtype)
        density = mask.mean(dim=0)
        aux = (density * probs.mean(dim=0)).sum() * self.experts
        z_loss = torch.logsumexp(logits, dim=-1).square().mean()
        inside = torch.einsum("te,td->etd", mask, tokens)
        hidden = F.relu(torch.bmm(inside, self.w1) + self.b1).square()
        out = torch.bmm(hidden, self.w2)
        combined = (out * (mask * gate.unsqueeze(-1)).t().unsqueeze(-1)).sum(0)
        return combined.view(b, s, d) + x, aux + 0.001 * z_loss


model = SwitchMoE()
inputs = (torch.randn(2, 6, 8),)
