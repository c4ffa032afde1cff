"""scVI's objective: library size, a zero-inflated negative binomial, KL terms with warm-up."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def log_zinb_positive(x: Tensor, mu: Tensor, theta: Tensor, pi: Tensor, eps: float = 1e-8) -> Tensor:
    softplus_pi = F.softplus(-pi)
    log_theta_eps = torch.log(theta + eps)
    log_theta_mu_eps = torch.log(theta + mu + eps)
    pi_theta_log = -pi + theta * (log_theta_eps - log_theta_mu_eps)
    case_zero = F.softplus(pi_theta_log) - softplus_pi
    mul_case_zero = torch.mul((x < eps).type(torch.float32), case_zero)
    case_non_zero = (
        -softplus_pi
        + pi_theta_log
        + x * (torch.log(mu + eps) - log_theta_mu_eps)
        + torch.lgamma(x + theta)
        - torch.lgamma(theta)
        - torch.lgamma(x + 1)
    )
    mul_case_non_zero = torch.mul((x > eps).type(torch.float32), case_non_zero)
    return mul_case_zero + mul_case_non_zero


class ScVI(nn.Module):
    def __init__(self, genes: int = 8, hidden: int = 6, latent: int = 3, batches: int = 2) -> None:
        super().__init__()
        self.fc = nn.Linear(genes, hidden)
        self.bn = nn.BatchNorm1d(hidden, eps=0.001, momentum=0.01)
        self.mean = nn.Linear(hidden, latent)
        self.var = nn.Linear(hidden, latent)
        self.decoder = nn.Linear(latent + batches, hidden)
        self.decoder_bn = nn.BatchNorm1d(hidden, eps=0.001, momentum=0.01)
        self.scale = nn.Linear(hidden, genes)
        self.dropout_decoder = nn.Linear(hidden, genes)
        self.px_r = nn.Parameter(torch.randn(genes))
        self.batches = batches

    def forward(
        self,
        x: Tensor,
        batch: Tensor,
        noise: Tensor,
        kl_weight: float = 0.5,
        weights: Optional[Tensor] = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        library = torch.log(x.sum(1)).unsqueeze(1)
        h = torch.log(1 + x)
        h = F.relu(self.bn(self.fc(h)))
        qz_m = self.mean(h)
        qz_v = torch.exp(self.var(h)) + 1e-4
        z = qz_m + qz_v.sqrt() * noise
        onehot = F.one_hot(batch, self.batches).float()
        d = self.decoder(torch.cat((z, onehot), dim=-1))
        d = F.leaky_relu(self.decoder_bn(d), 0.1, inplace=True)
        px_scale = F.softmax(self.scale(d), dim=-1)
        px_dropout = self.dropout_decoder(d)
        px_rate = torch.exp(torch.clamp(library, max=12)) * px_scale
        px_r = torch.exp(self.px_r)
        reconstruction = -log_zinb_positive(x, px_rate, px_r, px_dropout).sum(dim=-1)
        kl = 0.5 * (qz_v + qz_m**2 - 1.0 - torch.log(qz_v)).sum(dim=1)
        kl = torch.max(kl, torch.full_like(kl, 0.2))
        loss = reconstruction + kl_weight * kl
        if weights is not None:
            loss *= weights
        poisson = px_rate - x * torch.log(px_rate + 1e-8)
        stirling = x * torch.log(x.clamp(min=1)) - x + 0.5 * torch.log(2 * 3.141592653589793 * x.clamp(min=1))
        poisson += stirling.masked_fill(x <= 1, 0)
        gamma = torch.log(px_rate) + x / px_rate
        return loss.mean(), poisson.mean(), gamma.mean().detach()


model = ScVI()
inputs = (
    torch.randint(0, 6, (5, 8)).float() + 0.0,
    torch.tensor([0, 1, 0, 1, 1]),
    torch.randn(5, 3),
    0.5,
    torch.rand(5),
)
