"""A step of diffusion training: a cosine schedule, v-prediction, min-SNR weights, offset noise."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def timestep_embedding(t: Tensor, dim: int, max_period: float = 10000.0) -> Tensor:
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, device=t.device).float() / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


def extract(a: Tensor, t: Tensor, ndim: int) -> Tensor:
    out = a.gather(0, t)
    return out.reshape([t.size(0)] + [1] * (ndim - 1))


class Block(nn.Module):
    def __init__(self, channels: int, emb: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, channels), nn.GroupNorm(2, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * channels)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        h = self.conv1(self.act(self.norm1(x)))
        scale, shift = self.emb(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h)
        h *= 1 + scale
        h += shift
        h = self.conv2(self.act(h))
        h += x
        return h.div_(math.sqrt(2.0))


class Diffusion(nn.Module):
    def __init__(self, channels: int = 4, emb: int = 8, steps: int = 20) -> None:
        super().__init__()
        s = torch.linspace(0, 1, steps + 1)
        bar = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        bar = (bar / bar[0]).clamp(min=1e-4)[1:]
        self.register_buffer("sqrt_bar", bar.sqrt())
        self.register_buffer("sqrt_one_minus", (1 - bar).sqrt())
        self.register_buffer("snr", bar / (1 - bar))
        self.stem = nn.Conv2d(2, channels, 3, padding=1)
        self.block1, self.block2 = Block(channels, emb), Block(channels, emb)
        self.out = nn.Conv2d(channels, 2, 3, padding=1)
        self.label = nn.Embedding(4, emb)
        self.emb_dim = emb

    def forward(
        self,
        x0: Tensor,
        t: Tensor,
        noise: Tensor,
        offset: Tensor,
        label: Optional[Tensor] = None,
        drop: Optional[Tensor] = None,
    ) -> tuple[Tensor, Tensor]:
        noise = noise + 0.1 * offset[:, :, None, None]
        a, b = extract(self.sqrt_bar, t, 4), extract(self.sqrt_one_minus, t, 4)
        xt = a * x0
        xt += b * noise
        target = a * noise - b * x0
        emb = timestep_embedding(t, self.emb_dim)
        if label is not None:
            e = self.label(label)
            if drop is not None:
                e = e.masked_fill(drop[:, None], 0.0)
            emb = emb + e
        h = self.stem(xt)
        h = self.block2(self.block1(h, emb), emb)
        v = self.out(F.silu(h))
        loss = F.mse_loss(v, target, reduction="none").mean([1, 2, 3])
        snr = self.snr.gather(0, t)
        weight = torch.min(snr, torch.full_like(snr, 5.0)) / (snr + 1)
        loss *= weight
        x_pred = (a * xt - b * v).clamp_(-1.0, 1.0)
        return loss.mean(), x_pred


model = Diffusion()
inputs = (
    torch.randn(2, 2, 4, 4),
    torch.tensor([3, 15]),
    torch.randn(2, 2, 4, 4),
    torch.randn(2, 2),
    torch.tensor([1, 2]),
    torch.tensor([False, True]),
)
