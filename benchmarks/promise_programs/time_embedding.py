"""Sinusoidal embedding of diffusion steps and its MLP."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TimeEmbedding(nn.Module):
    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.half = size // 2
        self.first = nn.Linear(size, 12)
        self.second = nn.Linear(12, size)

    def forward(self, t: Tensor) -> Tensor:
        frequency = torch.exp(-9.21 * torch.arange(self.half, device=t.device) / self.half)
        angle = t.float()[:, None] * frequency[None]
        wave = torch.cat([angle.sin(), angle.cos()], -1)
        h = F.silu(self.first(wave))
        h = self.second(h)
        return F.mish(h) * 2.0 + wave


model = TimeEmbedding()
inputs = (torch.tensor([1, 5, 40]),)
