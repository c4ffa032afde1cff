"""Time series: DeepAR with scaled inputs, lags, a layer-normalised LSTM, Student's t and negative binomial heads."""

import math
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def weighted_average(x: Tensor, weights: Tensor, dim: int) -> Tensor:
    weighted = torch.where(weights != 0, x * weights, torch.zeros_like(x))
    total = torch.clamp(weights.sum(dim=dim), min=1.0)
    return weighted.sum(dim=dim) / total


class MeanScaler(nn.Module):
    def __init__(self, minimum_scale: float = 1e-5, default: Optional[float] = None) -> None:
        super().__init__()
        self.minimum_scale, self.default_scale = minimum_scale, default

    def forward(self, data: Tensor, observed: Tensor) -> Tuple[Tensor, Tensor]:
        num = observed.sum(1)
        total = (data.abs() * observed).sum(1)
        default = total.sum() / torch.clamp(num.sum(), min=1.0)
        if self.default_scale is not None:
            default = torch.full_like(default, self.default_scale)
        scale = torch.where(num > 0, total / num.clamp(min=1.0), default)
        scale = torch.clamp(scale, min=self.minimum_scale).unsqueeze(1)
        return data / scale, scale


class LSTMCell(nn.Module):
    def __init__(self, inside: int, hidden: int) -> None:
        super().__init__()
        self.ih, self.hh = nn.Linear(inside, 4 * hidden, bias=False), nn.Linear(hidden, 4 * hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        hx, cx = state
        gates = self.ih(x) + self.hh(hx)
        ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
        ingate = torch.sigmoid(ingate)
        forgetgate = torch.sigmoid(forgetgate + 1.0)
        cellgate = torch.tanh(cellgate)
        outgate = torch.sigmoid(outgate)
        cy = (forgetgate * cx) + (ingate * cellgate)
        hy = outgate * torch.tanh(self.norm(cy))
        return hy, (hy, cy)


class DeepAR(nn.Module):
    def __init__(self, lags: List[int], hidden: int = 8, layers: int = 2, distribution: str = "student") -> None:
        super().__init__()
        self.lags, self.hidden, self.longest = lags, hidden, max(lags)
        self.distribution = distribution
        self.scaler = MeanScaler()
        first = len(lags) + 4
        self.cells = nn.ModuleList([LSTMCell(first if i == 0 else hidden, hidden) for i in range(layers)])
        self.proj = nn.Linear(hidden, 3)

    def student(self, raw: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        df = 2.0 + F.softplus(raw[..., 0])
        loc = raw[..., 1] * scale
        sigma = F.softplus(raw[..., 2]).clamp_min(1e-4) * scale
        z = (y - loc) / sigma
        norm = sigma.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        norm = norm + torch.lgamma(0.5 * df) - torch.lgamma(0.5 * (df + 1.0))
        return 0.5 * (df + 1.0) * torch.log1p(z**2 / df) + norm

    def negative_binomial(self, raw: Tensor, scale: Tensor, y: Tensor) -> Tensor:
        count = F.softplus(raw[..., 0])
        logits = raw[..., 1] + scale.log()
        y = y.clamp(min=0).round()
        unnormalized = count * F.logsigmoid(-logits) + y * F.logsigmoid(logits)
        normalization = -torch.lgamma(count + y) + torch.lgamma(1.0 + y) + torch.lgamma(count)
        return normalization - unnormalized

    def forward(self, past: Tensor, observed: Tensor, age: Tensor) -> Tuple[Tensor, Tensor]:
        scaled, scale = self.scaler(past, observed)
        length = past.size(1) - self.longest
        states: List[Tuple[Tensor, Tensor]] = []
        for _ in range(len(self.cells)):
            h = torch.zeros(past.size(0), self.hidden, device=past.device)
            states.append((h, h.clone()))
        outputs: List[Tensor] = []
        for t in range(length):
            now = t + self.longest
            lagged = torch.stack([scaled[:, now - lag] for lag in self.lags], dim=1)
            week = torch.tensor(2 * math.pi * float(now % 7) / 7.0, device=past.device).expand(past.size(0), 1)
            x = torch.cat([lagged, scale.log(), torch.log10(2.0 + age[:, t : t + 1]), week.sin(), week.cos()], dim=1)
            for i, cell in enumerate(self.cells):
                y, states[i] = cell(x, states[i])
                x = y if i == 0 else x + y
            outputs.append(self.proj(x))
        raw = torch.stack(outputs, dim=1)
        target = past[:, self.longest :]
        if self.distribution == "student":
            nll = self.student(raw, scale, target)
        else:
            nll = self.negative_binomial(raw, scale, target)
        loss = weighted_average(nll, observed[:, self.longest :], dim=1).mean()
        return loss, raw[..., 1] * scale


model = DeepAR([1, 2, 3])
inputs = (torch.rand(6, 10) * 20, (torch.rand(6, 10) > 0.1).float(), torch.arange(7.0).repeat(6, 1))
