"""A layer in the Poincare ball: exponential map, Moebius addition, projection, distance."""

import torch
from torch import Tensor, nn


def artanh(x: Tensor) -> Tensor:
    x = x.clamp(-1 + 1e-5, 1 - 1e-5)
    return (torch.log1p(x) - torch.log1p(-x)) * 0.5


def mobius_add(x: Tensor, y: Tensor, c: float) -> Tensor:
    x2 = x.pow(2).sum(dim=-1, keepdim=True)
    y2 = y.pow(2).sum(dim=-1, keepdim=True)
    xy = (x * y).sum(dim=-1, keepdim=True)
    num = (1 + 2 * c * xy + c * y2) * x + (1 - c * x2) * y
    denom = 1 + 2 * c * xy + c**2 * x2 * y2
    return num / denom.clamp_min(1e-15)


class PoincareLinear(nn.Module):
    def __init__(self, cin: int = 5, cout: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin) * 0.3)
        self.bias = nn.Parameter(torch.randn(cout) * 0.05)
        self.c = 1.0

    def expmap0(self, u: Tensor) -> Tensor:
        norm = u.norm(dim=-1, p=2, keepdim=True).clamp_min(1e-5)
        return torch.tanh(self.c**0.5 * norm) * u / (self.c**0.5 * norm)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        hx = mobius_add(self.expmap0(x @ self.weight.t()), self.expmap0(self.bias), self.c)
        norm = torch.clamp_min(hx.norm(dim=-1, keepdim=True, p=2), 1e-5)
        maxnorm = (1 - 1e-3) / (self.c**0.5)
        hx = torch.where(norm > maxnorm, hx / norm * maxnorm, hx)
        hy = self.expmap0(y)
        between = mobius_add(-hx, hy, self.c).norm(dim=-1, p=2)
        return artanh(self.c**0.5 * between) * 2 / self.c**0.5


model = PoincareLinear()
inputs = (torch.randn(10, 5), torch.randn(10, 4) * 0.3)
