"""Augmentation of waveforms: a compressor with an envelope, soft clipping, mu-law, dither, fades."""

import torch
from torch import Tensor, nn


class Augment(nn.Module):
    def __init__(self, threshold_db: float = -18.0, ratio: float = 4.0) -> None:
        super().__init__()
        self.threshold_db = threshold_db
        self.ratio = ratio
        self.drive = nn.Parameter(torch.tensor(1.5))
        self.attack = 0.6
        self.release = 0.1

    def envelope(self, x: Tensor) -> Tensor:
        level = torch.zeros(x.size(0), device=x.device, dtype=x.dtype)
        out: list[Tensor] = []
        for t in range(x.size(1)):
            rect = x[:, t].abs()
            coeff = torch.where(rect > level, self.attack, self.release)
            level = level + coeff * (rect - level)
            out.append(level)
        return torch.stack(out, dim=1)

    def compress(self, x: Tensor) -> Tensor:
        db = 20.0 * torch.log10(self.envelope(x).clamp(min=1e-5))
        over = (db - self.threshold_db).clamp_(min=0.0)
        gain_db = -over * (1.0 - 1.0 / self.ratio)
        return x * torch.pow(10.0, gain_db / 20.0)

    def mu_law(self, x: Tensor, channels: int = 256) -> Tensor:
        mu = channels - 1.0
        y = torch.sign(x) * torch.log1p(mu * x.abs()) / 5.545177444479562
        q = ((y + 1.0) / 2.0 * mu + 0.5).floor()
        y = q / mu * 2.0 - 1.0
        return torch.sign(y) * (torch.exp(y.abs() * 5.545177444479562) - 1.0) / mu

    def forward(self, wave: Tensor, noise: Tensor, snr_db: Tensor) -> Tensor:
        x = wave - wave.mean(dim=-1, keepdim=True)
        x /= x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8)
        power = x.pow(2).mean(-1, keepdim=True)
        noise_power = noise.pow(2).mean(-1, keepdim=True)
        scale = (power / (noise_power * 10.0 ** (snr_db[:, None] / 10.0))).sqrt()
        x = x + scale * noise
        x = self.compress(x)
        x = torch.tanh(self.drive * x) / torch.tanh(self.drive)
        ramp = torch.linspace(0.0, 1.0, 8, device=x.device)
        x[:, :8] *= ramp
        x[:, -8:] *= ramp.flip(0)
        wet = self.mu_law(x.clamp(-1.0, 1.0))
        return x + (wet - x).detach()


model = Augment()
inputs = (torch.randn(3, 32), torch.randn(3, 32), torch.tensor([20.0, 10.0, 5.0]))
