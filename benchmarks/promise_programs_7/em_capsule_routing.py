"""Matrix capsules: votes, and routing by expectation and maximisation with an annealed temperature."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CapsuleEM(nn.Module):
    def __init__(self, n_in: int = 5, n_out: int = 3, iters: int = 3) -> None:
        super().__init__()
        self.iters = iters
        self.n_out = n_out
        self.weights = nn.Parameter(torch.randn(1, n_in, n_out, 4, 4) * 0.5)
        self.beta_u = nn.Parameter(torch.zeros(n_out))
        self.beta_a = nn.Parameter(torch.zeros(n_out))
        self.eps = 1e-8
        self.ln_2pi = math.log(2 * math.pi)

    def m_step(self, a_in: Tensor, r: Tensor, v: Tensor, inv_temp: float) -> tuple[Tensor, Tensor, Tensor]:
        r = r * a_in
        r = r / (r.sum(dim=2, keepdim=True) + self.eps)
        r_sum = r.sum(dim=1, keepdim=True)
        coeff = (r / (r_sum + self.eps)).unsqueeze(-1)
        mu = torch.sum(coeff * v, dim=1, keepdim=True)
        sigma_sq = torch.sum(coeff * (v - mu) ** 2, dim=1, keepdim=True) + self.eps
        cost = (self.beta_u[None, None, :, None] + torch.log(sigma_sq.sqrt())) * r_sum.unsqueeze(-1)
        a_out = torch.sigmoid(inv_temp * (self.beta_a - cost.sum(dim=-1).squeeze(1)))
        return a_out, mu, sigma_sq

    def e_step(self, mu: Tensor, sigma_sq: Tensor, a_out: Tensor, v: Tensor) -> Tensor:
        ln_p = -1.0 * (v - mu) ** 2 / (2 * sigma_sq) - torch.log(sigma_sq.sqrt()) - 0.5 * self.ln_2pi
        ln_ap = ln_p.sum(dim=-1) + torch.log(a_out.unsqueeze(1) + self.eps)
        return F.softmax(ln_ap, dim=2)

    def forward(self, poses: Tensor, a_in: Tensor) -> tuple[Tensor, Tensor]:
        b, n, _ = poses.shape
        p = poses.view(b, n, 1, 4, 4).expand(b, n, self.n_out, 4, 4)
        v = torch.matmul(p, self.weights.expand(b, n, self.n_out, 4, 4)).reshape(b, n, self.n_out, 16)
        r = torch.full((b, n, self.n_out), 1.0 / self.n_out, device=poses.device)
        a = torch.sigmoid(a_in).unsqueeze(-1)
        a_out, mu, sigma_sq = self.m_step(a, r, v, 0.01)
        for it in range(1, self.iters):
            r = self.e_step(mu, sigma_sq, a_out, v)
            a_out, mu, sigma_sq = self.m_step(a, r, v, 0.01 * (1 - 0.95 ** (it + 1)))
        return mu.squeeze(1), a_out


model = CapsuleEM()
inputs = (torch.randn(2, 5, 16), torch.randn(2, 5))
