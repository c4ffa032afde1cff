"""Flamingo: a perceiver resampler and gated cross attention with a mask of which picture a token may see."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PerceiverAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.norm_media, self.norm_latents = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, dim * 2, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def split(self, x: Tensor) -> Tensor:
        n, length, c = x.shape
        return x.view(n, length, self.heads, c // self.heads).transpose(1, 2)

    def forward(self, media: Tensor, latents: Tensor) -> Tensor:
        media = self.norm_media(media)
        latents = self.norm_latents(latents)
        q = self.split(self.to_q(latents))
        q *= self.scale
        k, v = self.to_kv(torch.cat((media, latents), dim=-2)).chunk(2, dim=-1)
        sim = q @ self.split(k).transpose(-1, -2)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        out = (attn @ self.split(v)).transpose(1, 2).flatten(2)
        return self.to_out(out)


class GatedCross(nn.Module):
    def __init__(self, dim: int, heads: int, only_immediate: bool = True) -> None:
        super().__init__()
        self.heads, self.scale, self.only_immediate = heads, (dim // heads) ** -0.5, only_immediate
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, dim * 2, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.attn_gate = nn.Parameter(torch.tensor([0.1]))
        self.ff_gate = nn.Parameter(torch.tensor([0.1]))
        self.ff = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim)
        )

    def forward(self, x: Tensor, media: Tensor, locations: Optional[Tensor] = None) -> Tensor:
        n, length, c = x.shape
        count, latents = media.shape[1], media.shape[2]
        media = media.flatten(1, 2)
        q = self.to_q(self.norm(x)).view(n, length, self.heads, -1).transpose(1, 2) * self.scale
        k, v = self.to_kv(media).chunk(2, dim=-1)
        k = k.view(n, count * latents, self.heads, -1).transpose(1, 2)
        v = v.view(n, count * latents, self.heads, -1).transpose(1, 2)
        sim = q @ k.transpose(-1, -2)
        text_time = torch.zeros(n, length, dtype=torch.long, device=x.device)
        if locations is not None:
            text_time = locations.cumsum(dim=-1)
            media_time = torch.arange(count, device=x.device) + 1
            media_time = media_time.repeat_interleave(latents)
            if self.only_immediate:
                mask = text_time[:, None, :, None] == media_time[None, None, None, :]
            else:
                mask = text_time[:, None, :, None] >= media_time[None, None, None, :]
            sim = sim.masked_fill(~mask, -1e4)
        attn = (sim - sim.amax(-1, keepdim=True).detach()).softmax(-1)
        if locations is not None:
            nothing = (text_time == 0)[:, None, :, None]
            attn = attn.masked_fill(nothing, 0.0)
        out = self.to_out((attn @ v).transpose(1, 2).reshape(n, length, c))
        out *= self.attn_gate.tanh()
        x = x + out
        return x + self.ff(x) * self.ff_gate.tanh()


class Flamingo(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(3, dim))
        self.time = nn.Parameter(torch.randn(2, 1, dim))
        self.resample = PerceiverAttention(dim, 2)
        self.norm = nn.LayerNorm(dim)
        self.cross = GatedCross(dim, 2)

    def forward(self, media: Tensor, text: Tensor, locations: Tensor) -> Tensor:
        n, count, _, c = media.shape
        media = media + self.time[:count]
        flat = media.flatten(0, 1)
        latents = self.latents.unsqueeze(0).repeat(n * count, 1, 1)
        latents = self.resample(flat, latents) + latents
        latents = self.norm(latents).view(n, count, 3, c)
        return F.layer_norm(self.cross(text, latents, locations), [c])


model = Flamingo()
inputs = (
    torch.randn(2, 2, 4, 8),
    torch.randn(2, 5, 8),
    torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 0, 1]]),
)
