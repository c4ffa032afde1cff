"""Long forecasts: reversible instance norm, moving averages, N-BEATS stacks, auto-correlation with delays."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RevIN(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__()
        self.eps, self.affine = eps, affine
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def norm(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = x.mean(1, keepdim=True).detach()
        stdev = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + self.eps).detach()
        x = x - mean
        x /= stdev
        if self.affine:
            x = x * self.weight
            x = x + self.bias
        return x, mean, stdev

    def denorm(self, x: Tensor, mean: Tensor, stdev: Tensor) -> Tensor:
        if self.affine:
            x = x - self.bias
            x = x / (self.weight + self.eps * self.eps)
        x = x * stdev
        x += mean
        return x


class SeriesDecomp(nn.Module):
    def __init__(self, kernel: int = 3) -> None:
        super().__init__()
        self.kernel = kernel
        self.avg = nn.AvgPool1d(kernel, stride=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        front = x[:, 0:1, :].repeat(1, (self.kernel - 1) // 2, 1)
        end = x[:, -1:, :].repeat(1, (self.kernel - 1) // 2, 1)
        padded = torch.cat([front, x, end], dim=1)
        mean = self.avg(padded.permute(0, 2, 1)).permute(0, 2, 1)
        return x - mean, mean


def auto_correlation(q: Tensor, k: Tensor, v: Tensor, factor: float) -> Tensor:
    length = v.shape[-1]
    corr = torch.stack([(q * torch.roll(k, i, dims=-1)).sum(-1) for i in range(length)], dim=-1)
    top = int(factor * math.log(length))
    mean_value = corr.mean(dim=1)
    weights, delay = torch.topk(mean_value, top, dim=-1)
    corr_weights = torch.softmax(weights, dim=-1)
    doubled = v.repeat(1, 1, 2)
    index = torch.arange(length, device=v.device)[None, None, :].expand_as(v)
    out = torch.zeros_like(v)
    for i in range(top):
        shifted = torch.gather(doubled, -1, index + delay[:, i, None, None])
        out += shifted * corr_weights[:, i, None, None]
    return out


class NBeatsBlock(nn.Module):
    def __init__(self, back: int, fore: int, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(back, width), nn.Linear(width, width)])
        self.theta = nn.Linear(width, 6)
        t = torch.arange(back + fore).float() / (back + fore)
        basis = torch.cat(
            [
                torch.stack([t**i for i in range(2)]),
                torch.cos(2 * math.pi * t)[None],
                torch.sin(2 * math.pi * t)[None],
            ]
        )
        self.register_buffer("basis", basis)
        self.back = back

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x
        for layer in self.layers:
            h = F.relu(layer(h))
        theta = self.theta(h)[..., :4]
        both = torch.einsum("bcp,pt->bct", theta, self.basis)
        return both[..., : self.back], both[..., self.back :]


class Forecaster(nn.Module):
    def __init__(self, features: int = 3, back: int = 8, fore: int = 4) -> None:
        super().__init__()
        self.revin, self.decomp = RevIN(features), SeriesDecomp()
        self.seasonal, self.trend = nn.Linear(back, fore), nn.Linear(back, fore)
        self.blocks = nn.ModuleList([NBeatsBlock(back, fore) for _ in range(2)])
        self.factor = 1.0

    def forward(self, x: Tensor, target: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
        x, mean, stdev = self.revin.norm(x)
        seasonal, trend = self.decomp(x)
        s, t = seasonal.permute(0, 2, 1), trend.permute(0, 2, 1)
        s = s + auto_correlation(s, s, s, self.factor)
        out = self.seasonal(s) + self.trend(t)
        residual = x.permute(0, 2, 1).contiguous()
        for block in self.blocks:
            back, fore = block(residual)
            residual = residual - back
            out += fore
        y = self.revin.denorm(out.permute(0, 2, 1), mean, stdev)
        loss = torch.zeros((), device=x.device)
        if target is not None:
            loss = 2.0 * ((y - target).abs() / (y.abs() + target.abs() + 1e-3)).mean()
        return y, loss


model = Forecaster()
inputs = (torch.randn(2, 8, 3), torch.randn(2, 4, 3))
