"""The loss of deep evidential regression, with the head that makes its parameters."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Evidential(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.head = nn.Linear(dim, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        gamma, nu, alpha, beta = self.head(x).chunk(4, dim=-1)
        nu = F.softplus(nu)
        alpha = F.softplus(alpha) + 1.0
        beta = F.softplus(beta)
        omega = 2 * beta * (1 + nu)
        nll = (
            0.5 * torch.log(math.pi / nu)
            - alpha * torch.log(omega)
            + (alpha + 0.5) * torch.log(nu * (y - gamma) ** 2 + omega)
            + torch.lgamma(alpha)
            - torch.lgamma(alpha + 0.5)
        )
        error = (y - gamma).abs()
        return (nll + 0.01 * error * (2 * nu + alpha)).mean()


model = Evidential()
inputs = (torch.randn(16, 8), torch.randn(16, 1))
