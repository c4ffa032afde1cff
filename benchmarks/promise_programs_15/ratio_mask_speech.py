"""Speech enhancement: compressed spectra, a mask by a small GRU cell over frames, phase-sensitive losses."""

import torch
from torch import Tensor, nn


class Enhancer(nn.Module):
    def __init__(self, bins: int = 5, hidden: int = 6, power: float = 0.3) -> None:
        super().__init__()
        self.power, self.hidden = power, hidden
        self.wx, self.wh = nn.Linear(2 * bins, 3 * hidden), nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, bins)
        self.floor = nn.Parameter(torch.tensor(0.05))

    def features(self, magnitude: Tensor) -> Tensor:
        x = torch.log(magnitude.clamp(min=1e-5))
        mean = x.mean(1, keepdim=True)
        x = x - mean
        x /= x.std(1, keepdim=True) + 1e-5
        delta = torch.zeros_like(x)
        delta[:, 1:] = x[:, 1:] - x[:, :-1]
        return torch.cat([x, delta], -1)

    def cell(self, x: Tensor, h: Tensor) -> Tensor:
        gx, gh = self.wx(x), self.wh(h)
        rx, zx, nx = gx.chunk(3, -1)
        rh, zh, nh = gh.chunk(3, -1)
        r = torch.sigmoid(rx + rh)
        z = torch.sigmoid(zx + zh)
        n = torch.tanh(nx + r * nh)
        return n + z * (h - n)

    def forward(
        self, real: Tensor, imag: Tensor, clean_real: Tensor, clean_imag: Tensor
    ) -> tuple[Tensor, Tensor]:
        magnitude = torch.sqrt(real * real + imag * imag + 1e-8)
        x = self.features(magnitude)
        h = torch.zeros(x.size(0), self.hidden, device=x.device)
        masks = []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            masks.append(torch.sigmoid(self.out(h)))
        mask = torch.stack(masks, 1)
        mask = self.floor + (1 - self.floor) * mask
        er, ei = real * mask, imag * mask
        clean = torch.sqrt(clean_real**2 + clean_imag**2 + 1e-8)
        enhanced = torch.sqrt(er**2 + ei**2 + 1e-8)
        compressed = (enhanced**self.power - clean**self.power) ** 2
        scale = enhanced ** (self.power - 1)
        target = clean ** (self.power - 1)
        phase = (er * scale - clean_real * target).pow(2) + (ei * scale - clean_imag * target).pow(2)
        loss = 0.7 * compressed.mean() + 0.3 * phase.mean()
        quiet = clean < 0.1
        leak = enhanced.masked_fill(~quiet, 0.0)
        loss += leak.sum() / quiet.sum().clamp(min=1)
        return loss, mask


model = Enhancer()
inputs = tuple(torch.randn(2, 4, 5) for _ in range(4))
