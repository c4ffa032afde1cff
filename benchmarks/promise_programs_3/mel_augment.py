"""Augmentation of a spectrogram: gain, mu-law, pre-emphasis and per-channel energy normalisation."""

import math

import torch
from torch import Tensor


def mu_law(x: Tensor, mu: float) -> Tensor:
    return torch.sign(x) * torch.log1p(mu * torch.abs(x)) / math.log1p(mu)


def pcen(energy: Tensor, s: float, alpha: float, delta: float, r: float) -> Tensor:
    smooth = torch.empty_like(energy)
    last = energy[:, 0]
    for t in range(energy.size(1)):
        last = (1 - s) * last + s * energy[:, t]
        smooth[:, t] = last
    gained = energy / (1e-6 + smooth).pow(alpha)
    return (gained + delta) ** r - delta**r


def model(wave: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    wave = wave - wave.mean(dim=-1, keepdim=True)
    emphasised = wave.clone()
    emphasised[:, 1:] -= 0.97 * wave[:, :-1]
    loud = torch.clamp(emphasised * 10 ** (gain / 20), -1.0, 1.0)
    coded = mu_law(loud, 255.0)
    frames = loud.unfold(1, 8, 4)
    energy = frames.pow(2).sum(-1)
    return coded, pcen(energy, 0.2, 0.98, 2.0, 0.5)


inputs = ((torch.randn(3, 32) * 0.2).requires_grad_(), torch.randn(3, 1))
