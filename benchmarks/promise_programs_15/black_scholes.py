"""Black and Scholes: prices and Greeks of calls and puts, and Newton's method for the implied volatility."""

import math

import torch
from torch import Tensor, nn


class Options(nn.Module):
    def __init__(self, rate: float = 0.03, steps: int = 3) -> None:
        super().__init__()
        self.rate, self.steps = rate, steps
        self.skew = nn.Parameter(torch.tensor(0.1))

    def cdf(self, x: Tensor) -> Tensor:
        return 0.5 * (1 + torch.erf(x / math.sqrt(2.0)))

    def pdf(self, x: Tensor) -> Tensor:
        return torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)

    def price(
        self, spot: Tensor, strike: Tensor, time: Tensor, vol: Tensor, call: Tensor
    ) -> tuple[Tensor, Tensor]:
        root = time.sqrt()
        d1 = torch.log(spot / strike)
        d1 += (self.rate + vol * vol / 2) * time
        d1 /= vol * root
        d2 = d1 - vol * root
        discount = torch.exp(-self.rate * time)
        c = spot * self.cdf(d1) - strike * discount * self.cdf(d2)
        p = strike * discount * self.cdf(-d2) - spot * self.cdf(-d1)
        vega = spot * self.pdf(d1) * root
        return torch.where(call, c, p), vega

    def forward(
        self, spot: Tensor, strike: Tensor, time: Tensor, quoted: Tensor, call: Tensor
    ) -> tuple[Tensor, Tensor]:
        moneyness = torch.log(strike / spot)
        vol = torch.full_like(spot, 0.2)
        vol = vol + self.skew * moneyness
        vol.clamp_(min=0.05, max=2.0)
        for _ in range(self.steps):
            value, vega = self.price(spot, strike, time, vol, call)
            step = (value - quoted) / vega.clamp(min=1e-3)
            step = step.clamp(-0.2, 0.2)
            vol = (vol - step).clamp(0.05, 2.0)
        value, vega = self.price(spot, strike, time, vol, call)
        error = (value - quoted).abs()
        weight = vega / vega.sum()
        weight[error > 5.0] = 0.0
        loss = (weight * error).sum()
        payoff = torch.where(call, spot - strike, strike - spot)
        payoff.relu_()
        return loss, value - payoff


model = Options()
inputs = (
    torch.full((6,), 100.0),
    torch.tensor([90.0, 95.0, 100.0, 105.0, 110.0, 120.0]),
    torch.tensor([0.25, 0.5, 0.5, 1.0, 1.0, 2.0]),
    torch.tensor([11.5, 9.5, 6.8, 9.5, 14.0, 22.0]),
    torch.tensor([True, True, True, True, False, False]),
)
