"""A diffusion block: sinusoidal time embedding, SiLU in place, scale and shift of a normalised map."""

import math

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.emb = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(inplace=True), nn.Linear(dim, 2 * dim))
        self.norm = nn.GroupNorm(2, dim)
        self.act = nn.SiLU(inplace=True)
        self.conv = nn.Conv2d(dim, dim, 3, padding=1)
        self.dim = dim

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        half = self.dim // 2
        freq = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device).float() / half)
        angle = t[:, None] * freq[None, :]
        emb = torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1)
        scale, shift = self.emb(emb)[:, :, None, None].chunk(2, dim=1)
        h = self.norm(x)
        h *= 1 + scale
        h += shift
        h = self.act(h)
        return (self.conv(h) + x) / math.sqrt(2.0)


model = Block()
inputs = (torch.randn(2, 8, 6, 6), torch.rand(2) * 100)
