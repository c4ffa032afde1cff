"""A real-time noise suppressor: band energies, features with a memory, gains from a GRU, attack and release."""

from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GainNetwork(nn.Module):
    def __init__(self, features: int, bands: int, hidden: int = 12) -> None:
        super().__init__()
        self.dense = nn.Linear(features, hidden)
        self.x2h, self.h2h = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, 3 * hidden)
        self.gain, self.vad = nn.Linear(hidden, bands), nn.Linear(hidden, 1)

    def forward(self, x: Tensor, h: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        x = torch.tanh(self.dense(x))
        xr, xz, xn = self.x2h(x).chunk(3, -1)
        hr, hz, hn = self.h2h(h).chunk(3, -1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = F.relu(xn + r * hn)
        h = n + z * (h - n)
        return torch.sigmoid(self.gain(h)), torch.sigmoid(self.vad(h)), h


class Denoiser(nn.Module):
    def __init__(self, bins: int = 17, bands: int = 6, floor: float = 0.05, attack: float = 0.6) -> None:
        super().__init__()
        self.bands, self.floor, self.attack, self.release = bands, floor, attack, 0.9
        centres = torch.linspace(0, bins - 1, bands)
        width = (bins - 1) / (bands - 1)
        triangles = 1 - (torch.arange(bins).float()[None] - centres[:, None]).abs() / width
        self.register_buffer("bank", triangles.clamp(min=0))
        self.net = GainNetwork(3 * bands + 1, bands)

    def features(self, spectrum: Tensor, state: Dict[str, Tensor]) -> Tensor:
        power = spectrum[..., 0] ** 2 + spectrum[..., 1] ** 2
        energy = torch.log10(1e-2 + F.linear(power, self.bank))
        follow = torch.maximum(state["peak"] - 1.5, energy)
        energy = torch.max(torch.max(energy, follow - 1.5), torch.full_like(energy, -7.0))
        state["peak"] = torch.max(state["peak"], energy)
        delta = energy - state["previous"]
        second = energy - 2 * state["previous"] + state["older"]
        state["older"] = state["previous"]
        state["previous"] = energy
        flatness = energy.mean(-1, keepdim=True) - torch.log10(power.mean(-1, keepdim=True) + 1e-2)
        return torch.cat([energy, delta, second, flatness], dim=-1)

    def forward(self, frames: Tensor) -> Tuple[Tensor, Tensor]:
        batch = frames.size(0)
        state: Dict[str, Tensor] = {}
        for name in ["peak", "previous", "older"]:
            state[name] = frames.new_zeros(batch, self.bands)
        h = frames.new_zeros(batch, 12)
        last = torch.ones(batch, self.bands, device=frames.device)
        out: List[Tensor] = []
        speech: List[Tensor] = []
        for t in range(frames.size(1)):
            frame = frames[:, t]
            gain, vad, h = self.net(self.features(frame, state), h)
            gain = torch.where(gain > last, self.attack * gain + (1 - self.attack) * last, gain)
            gain = torch.max(gain, self.release * last * vad)
            gain = gain.clamp(self.floor, 1.0)
            last = gain
            per_bin = gain @ self.bank
            per_bin = per_bin / self.bank.sum(0).clamp_min(1e-6)
            out.append(frame * per_bin.sqrt().unsqueeze(-1))
            speech.append(vad)
        return torch.stack(out, dim=1), torch.cat(speech, dim=1)


model = Denoiser()
inputs = (torch.randn(4, 6, 17, 2),)
