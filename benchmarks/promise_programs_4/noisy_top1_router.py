"""A router of experts with a temperature, padded tokens masked out, and a balance loss."""

import torch
from torch import Tensor, nn


class Router(nn.Module):
    def __init__(self, dim: int = 8, experts: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = experts

    def forward(self, x: Tensor, padded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.gate(x) / 0.7
        logits[padded] = -1e4
        probs = torch.softmax(logits, -1)
        weight, index = probs.max(-1)
        hot = (index.unsqueeze(-1) == torch.arange(self.experts, device=x.device)).to(x.dtype)
        hot *= 1.0 - padded.to(x.dtype).unsqueeze(-1)
        balance = (hot.mean((0, 1)) * probs.mean((0, 1))).sum() * self.experts
        weight = weight * (weight > 0.3).to(x.dtype)
        return weight.unsqueeze(-1) * hot, index, balance


model = Router()
inputs = (torch.randn(2, 6, 8), torch.arange(6).expand(2, 6) > 4)
