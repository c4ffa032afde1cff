"""gMLP and MLP-Mixer blocks with a spatial gate, layer scale and stochastic depth."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpatialGate(nn.Module):
    def __init__(self, dim: int, length: int, tiny: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.Conv1d(length, length, 1)
        self.tiny = tiny
        nn.init.constant_(self.mix.bias, 1.0)

    def forward(self, x: Tensor, attention: Tensor) -> Tensor:
        u, v = x.chunk(2, dim=-1)
        v = self.mix(self.norm(v))
        if self.tiny:
            v += attention
        return u * v


class GatedBlock(nn.Module):
    def __init__(self, dim: int, length: int, drop: float) -> None:
        super().__init__()
        self.drop = drop
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)
        self.gate = SpatialGate(2 * dim, length, True)
        self.tiny = nn.Linear(dim, 2 * dim)
        self.scale = nn.Parameter(torch.full((dim,), 0.1))

    def keep(self, x: Tensor) -> Tensor:
        if self.drop == 0.0 or not self.training:
            return x
        mask = torch.empty(x.shape[0], 1, 1, device=x.device).bernoulli_(1 - self.drop)
        mask.div_(1 - self.drop)
        return x * mask

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        weights = (h @ h.transpose(1, 2)) / h.size(-1) ** 0.5
        tiny = self.tiny(weights.softmax(-1) @ h)
        h = F.gelu(self.up(h))
        h = self.down(self.gate(h, tiny))
        h *= self.scale
        return x + self.keep(h)


class Mixer(nn.Module):
    def __init__(self, dim: int, length: int) -> None:
        super().__init__()
        self.norm0, self.norm1 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(
            nn.Linear(length, 2 * length), nn.Hardswish(), nn.Linear(2 * length, length)
        )
        self.channel = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(inplace=True), nn.Linear(2 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.token(self.norm0(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.norm1(x))


class Model(nn.Module):
    def __init__(self, dim: int = 8, length: int = 6) -> None:
        super().__init__()
        self.gated = GatedBlock(dim, length, 0.1)
        self.mixer = Mixer(dim, length)
        self.head = nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mixer(self.gated(x))
        pooled = x.mean(1) + x.amax(1)
        logits = self.head(pooled)
        return logits - logits.logsumexp(-1, keepdim=True)


model = Model().eval()
inputs = (torch.randn(3, 6, 8),)
