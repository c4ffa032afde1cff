"""A forecaster's head: quantiles that do not cross, pinball loss, CRPS of a Gaussian, Winkler's score."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class QuantileHead(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 5)
        self.gauss = nn.Linear(dim, 2)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("q", torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95]))

    def quantiles(self, h: Tensor) -> Tensor:
        raw = self.out(h)
        steps = F.softplus(raw)
        steps[..., 0] = raw[..., 0]
        return torch.cumsum(steps, dim=-1)

    def pinball(self, pred: Tensor, target: Tensor) -> Tensor:
        error = target.unsqueeze(-1) - pred
        return torch.max((self.q - 1) * error, self.q * error)

    def crps(self, mu: Tensor, sigma: Tensor, target: Tensor) -> Tensor:
        z = (target - mu) / sigma
        pdf = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2.0)))
        return sigma * (z * (2 * cdf - 1) + 2 * pdf - 1.0 / math.sqrt(math.pi))

    def forward(self, h: Tensor, target: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        h = h + F.glu(torch.cat([self.drop(h), self.gate(h)], dim=-1), dim=-1)
        scale = 1 + (target * observed).abs().sum(1, keepdim=True) / observed.sum(1, keepdim=True).clamp(
            min=1
        )
        target = target / scale
        pred = self.quantiles(h)
        loss = self.pinball(pred, target)
        loss[observed < 0.5] = 0.0
        low, high = pred[..., 0], pred[..., -1]
        winkler = high - low
        winkler += 20.0 * (low - target).clamp(min=0)
        winkler += 20.0 * (target - high).clamp(min=0)
        mu, log_sigma = self.gauss(h).unbind(-1)
        sigma = F.softplus(log_sigma).clamp(min=1e-3)
        score = self.crps(mu, sigma, target)
        total = loss.mean(-1) + 0.1 * winkler + score
        total = (total * observed).sum() / observed.sum().clamp(min=1.0)
        return total, pred * scale.unsqueeze(-1)


model = QuantileHead()
inputs = (torch.randn(3, 6, 8), torch.randn(3, 6), (torch.rand(3, 6) > 0.2).float())
