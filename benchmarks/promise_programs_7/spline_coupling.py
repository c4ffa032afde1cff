"""A coupling of rational quadratic splines with tails, as neural spline flows have it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def searchsorted(bins: Tensor, x: Tensor) -> Tensor:
    edges = bins.clone()
    edges[..., -1] += 1e-6
    return torch.sum(x[..., None] >= edges, dim=-1) - 1


class SplineCoupling(nn.Module):
    def __init__(self, dim: int = 4, hidden: int = 8, bins: int = 5, bound: float = 3.0) -> None:
        super().__init__()
        self.half, self.bins, self.bound = dim // 2, bins, bound
        self.net = nn.Sequential(
            nn.Linear(self.half, hidden), nn.ELU(), nn.Linear(hidden, self.half * (3 * bins - 1))
        )

    def knots(self, raw: Tensor, low: float) -> tuple[Tensor, Tensor]:
        widths = F.softmax(raw, dim=-1)
        widths = 1e-3 + (1 - 1e-3 * self.bins) * widths
        cum = torch.cumsum(widths, dim=-1)
        cum = F.pad(cum, pad=[1, 0], mode="constant", value=0.0)
        cum = 2 * self.bound * cum + low
        cum[..., 0] = low
        cum[..., -1] = -low
        return cum, cum[..., 1:] - cum[..., :-1]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x1, x2 = x[:, : self.half], x[:, self.half :]
        params = self.net(x1).view(x.size(0), self.half, 3 * self.bins - 1)
        w, h, d = params.split([self.bins, self.bins, self.bins - 1], dim=-1)
        cumw, widths = self.knots(w, -self.bound)
        cumh, heights = self.knots(h, -self.bound)
        derivs = 1e-3 + F.softplus(F.pad(d, pad=[1, 1], value=0.54))
        inside = (x2 >= -self.bound) & (x2 <= self.bound)
        xin = torch.where(inside, x2, torch.zeros_like(x2))
        idx = searchsorted(cumw, xin)[..., None]
        cw = cumw.gather(-1, idx)[..., 0]
        bw = widths.gather(-1, idx)[..., 0]
        ch = cumh.gather(-1, idx)[..., 0]
        delta = (heights / widths).gather(-1, idx)[..., 0]
        d0 = derivs.gather(-1, idx)[..., 0]
        d1 = derivs[..., 1:].gather(-1, idx)[..., 0]
        bh = heights.gather(-1, idx)[..., 0]
        theta = (xin - cw) / bw
        t1m = theta * (1 - theta)
        num = bh * (delta * theta.pow(2) + d0 * t1m)
        den = delta + (d0 + d1 - 2 * delta) * t1m
        out = ch + num / den
        dnum = delta.pow(2) * (d1 * theta.pow(2) + 2 * delta * t1m + d0 * (1 - theta).pow(2))
        logdet = torch.log(dnum) - 2 * torch.log(den)
        out = torch.where(inside, out, x2)
        logdet = logdet * inside.float()
        return torch.cat([x1, out], dim=-1), logdet.sum(-1)


model = SplineCoupling()
inputs = (torch.randn(6, 4),)
