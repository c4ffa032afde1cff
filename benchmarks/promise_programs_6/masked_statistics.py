"""Normalisation of speech features over valid frames, an instance norm and a root mean square by hand."""

import torch
from torch import Tensor, nn


class MaskedNorm(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.scale = nn.Parameter(torch.ones(1))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        steps = torch.arange(x.size(1), device=x.device)
        mask = (steps[None, :] < lengths[:, None]).unsqueeze(-1)
        valid = mask.float()
        count = valid.sum(1, keepdim=True).clamp_(min=1.0)
        mean = (x * valid).sum(dim=1, keepdim=True) / count
        var = (((x - mean) * valid) ** 2).sum(dim=1, keepdim=True) / count
        x = (x - mean) / torch.sqrt(var + 1e-5)
        x = x * self.weight + self.bias
        x = x.masked_fill(~mask, 0.0)
        u = x.mean(2, keepdim=True)
        s = x.var(2, keepdim=True, unbiased=False)
        y = (x - u) / (s + 1e-5).sqrt()
        y = self.proj(y)
        norm = y.norm(2, dim=-1, keepdim=True).clamp(min=1e-5)
        return y / norm * self.scale


model = MaskedNorm()
inputs = (torch.randn(2, 6, 8), torch.tensor([6, 3]))
