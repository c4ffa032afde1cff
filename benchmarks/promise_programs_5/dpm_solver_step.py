"""A second order step of DPM-Solver++ with guidance and dynamic thresholds."""

import torch
from torch import Tensor, nn


class Solver(nn.Module):
    def __init__(self, guidance: float = 7.5) -> None:
        super().__init__()
        self.guidance = guidance
        self.register_buffer("alphas", torch.linspace(0.99, 0.1, 10).cumprod(0))

    def forward(
        self, x: Tensor, cond: Tensor, uncond: Tensor, old: Tensor, t: Tensor
    ) -> tuple[Tensor, Tensor]:
        eps = uncond + self.guidance * (cond - uncond)
        a = self.alphas[t].sqrt().view(-1, 1, 1, 1)
        sigma = (1 - self.alphas[t]).sqrt().view(-1, 1, 1, 1)
        a_next = self.alphas[t - 1].sqrt().view(-1, 1, 1, 1)
        sigma_next = (1 - self.alphas[t - 1]).sqrt().view(-1, 1, 1, 1)
        x0 = (x - sigma * eps) / a
        limit = torch.quantile(x0.flatten(1).abs(), 0.995, dim=1).clamp(min=1.0).view(-1, 1, 1, 1)
        x0 = torch.clamp(x0, -limit, limit) / limit
        h = torch.log(a_next / sigma_next) - torch.log(a / sigma)
        d = 1.5 * x0 - 0.5 * old
        x = (sigma_next / sigma) * x - a_next * torch.expm1(-h) * d
        return x, x0


model = Solver()
shape = (2, 3, 4, 4)
inputs = (
    torch.randn(shape),
    torch.randn(shape),
    torch.randn(shape),
    torch.randn(shape),
    torch.tensor([5, 3]),
)
