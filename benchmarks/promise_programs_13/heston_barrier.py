"""Heston paths by Monte Carlo: full truncation, a barrier that knocks out, control variates, Greeks."""

from typing import Dict, Tuple

import torch
from torch import Tensor, nn


class Heston(nn.Module):
    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.raw_kappa = nn.Parameter(torch.tensor(0.5))
        self.raw_theta = nn.Parameter(torch.tensor(-2.0))
        self.raw_xi = nn.Parameter(torch.tensor(-1.0))
        self.raw_rho = nn.Parameter(torch.tensor(-0.6))
        self.steps = steps

    def simulate(
        self, spot: Tensor, v0: Tensor, z: Tensor, rate: float, dt: float
    ) -> Tuple[Tensor, Tensor, Tensor]:
        kappa = nn.functional.softplus(self.raw_kappa)
        theta = torch.exp(self.raw_theta)
        xi = nn.functional.softplus(self.raw_xi)
        rho = torch.tanh(self.raw_rho)
        log_s = spot.log().expand(z.size(1)).clone()
        v = v0.expand(z.size(1)).clone()
        low = log_s.clone()
        mean = torch.zeros_like(log_s)
        for t in range(self.steps):
            positive = v.clamp(min=0.0)
            root = torch.sqrt(positive + 1e-8)
            dw1 = z[t, :, 0] * dt**0.5
            dw2 = rho * dw1 + torch.sqrt(1.0 - rho * rho) * z[t, :, 1] * dt**0.5
            log_s = log_s + (rate - 0.5 * positive) * dt + root * dw1
            v = v + kappa * (theta - positive) * dt + xi * root * dw2
            low = torch.minimum(low, log_s)
            mean += log_s.exp()
        mean /= self.steps
        return log_s.exp(), low.exp(), mean

    def forward(self, spot: Tensor, v0: Tensor, strikes: Tensor, z: Tensor) -> Dict[str, Tensor]:
        rate, dt = 0.02, 0.25
        end, low, mean = self.simulate(spot, v0, z, rate, dt)
        discount = torch.exp(torch.tensor(-rate * dt * self.steps))
        alive = (low > 0.8 * spot).to(end.dtype)
        payoff = (end[:, None] - strikes[None]).clamp_(min=0.0)
        barrier = payoff * alive[:, None]
        asian = torch.relu(mean[:, None] - strikes[None])
        forward = spot / discount
        centred = end - end.mean()
        beta = (centred[:, None] * (payoff - payoff.mean(0))).mean(0) / centred.pow(2).mean().clamp(min=1e-6)
        adjusted = payoff - beta * (end[:, None] - forward)
        price = discount * adjusted.mean(0)
        spread = adjusted.sub(adjusted.mean(0)).square_().mean(0).sqrt_()
        return {
            "call": price,
            "barrier": discount * barrier.mean(0),
            "asian": discount * asian.mean(0),
            "se": spread,
        }


model = Heston()
inputs = (
    torch.tensor(1.0),
    torch.tensor(0.04),
    torch.tensor([0.9, 1.0, 1.1]),
    torch.randn(4, 16, 2),
)
