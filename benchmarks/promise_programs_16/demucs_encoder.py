"""Demucs's encoder and decoder: GLU, local attention over frames, layer scales, a normalised waveform."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LocalState(nn.Module):
    def __init__(self, channels: int, heads: int = 2, ndecay: int = 2) -> None:
        super().__init__()
        self.heads, self.ndecay = heads, ndecay
        self.content, self.query = nn.Conv1d(channels, channels, 1), nn.Conv1d(channels, channels, 1)
        self.key = nn.Conv1d(channels, channels, 1)
        self.query_decay = nn.Conv1d(channels, heads * ndecay, 1)
        self.proj = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, _, t = x.shape
        indexes = torch.arange(t, device=x.device, dtype=x.dtype)
        delta = indexes[:, None] - indexes[None, :]
        queries = self.query(x).view(b, self.heads, -1, t)
        keys = self.key(x).view(b, self.heads, -1, t)
        dots = torch.einsum("bhct,bhcs->bhts", keys, queries)
        dots /= math.sqrt(keys.shape[2])
        if self.ndecay:
            decays = torch.arange(1, self.ndecay + 1, device=x.device, dtype=x.dtype)
            decay_q = self.query_decay(x).view(b, self.heads, -1, t)
            decay_q = torch.sigmoid(decay_q) / 2
            decay_kernel = -decays.view(-1, 1, 1) * delta.abs() / math.sqrt(self.ndecay)
            dots += torch.einsum("fts,bhfs->bhts", decay_kernel, decay_q)
        dots.masked_fill_(torch.eye(t, device=dots.device, dtype=torch.bool), -100)
        weights = torch.softmax(dots, dim=2)
        content = self.content(x).view(b, self.heads, -1, t)
        result = torch.einsum("bhts,bhct->bhcs", weights, content).reshape(b, -1, t)
        return x + self.proj(result)


class Demucs(nn.Module):
    def __init__(self, channels: int = 4, normalise: bool = True) -> None:
        super().__init__()
        self.normalise = normalise
        self.enc = nn.Conv1d(1, channels, 8, 4)
        self.rewrite = nn.Conv1d(channels, 2 * channels, 1)
        self.norm = nn.GroupNorm(2, 2 * channels)
        self.scale = nn.Parameter(torch.full((channels,), 1e-2))
        self.state = LocalState(channels)
        self.dec = nn.ConvTranspose1d(channels, 1, 8, 4)

    def forward(self, mix: Tensor, clean: Tensor) -> tuple[Tensor, Tensor]:
        x = mix
        mean, std = torch.zeros_like(x[..., :1]), torch.ones_like(x[..., :1])
        if self.normalise:
            mono = mix.mean(dim=1, keepdim=True)
            mean = mono.mean(dim=-1, keepdim=True)
            std = mono.std(dim=-1, keepdim=True)
            x = (x - mean) / (1e-5 + std)
        x = F.gelu(self.enc(x))
        skip = x
        y = F.glu(self.norm(self.rewrite(x)), dim=1)
        x = x + self.scale[:, None] * y
        x = self.state(x)
        x += skip
        x = self.dec(x)
        x *= std
        x += mean
        error = (x - clean).abs().mean((1, 2))
        power = clean.pow(2).sum((1, 2)) + 1e-7
        sdr = 10 * torch.log10(power / ((clean - x).pow(2).sum((1, 2)) + 1e-7))
        return (error - 0.01 * sdr).mean(), x


model = Demucs()
inputs = (torch.randn(2, 1, 40), torch.randn(2, 1, 40))
