"""A variational RNN: prior, encoder and decoder at every step, KL and likelihood of masked sequences."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VRNN(nn.Module):
    def __init__(self, x_dim: int = 4, h_dim: int = 6, z_dim: int = 3, free_nats: float = 0.05) -> None:
        super().__init__()
        self.h_dim, self.free_nats = h_dim, free_nats
        self.phi_x = nn.Sequential(nn.Linear(x_dim, h_dim), nn.ReLU(inplace=True))
        self.phi_z = nn.Sequential(nn.Linear(z_dim, h_dim), nn.ReLU())
        self.prior, self.enc = nn.Linear(h_dim, 2 * z_dim), nn.Linear(2 * h_dim, 2 * z_dim)
        self.dec = nn.Linear(2 * h_dim, 2 * x_dim)
        self.w_ih, self.w_hh = nn.Linear(2 * h_dim, 3 * h_dim), nn.Linear(h_dim, 3 * h_dim)

    def cell(self, x: Tensor, h: Tensor) -> Tensor:
        i_r, i_z, i_n = self.w_ih(x).chunk(3, 1)
        h_r, h_z, h_n = self.w_hh(h).chunk(3, 1)
        r, z = torch.sigmoid(i_r + h_r), torch.sigmoid(i_z + h_z)
        n = torch.tanh(i_n + r * h_n)
        return n + z * (h - n)

    def kl(self, m1: Tensor, s1: Tensor, m2: Tensor, s2: Tensor) -> Tensor:
        element = 2 * torch.log(s2) - 2 * torch.log(s1)
        element = element + (s1.pow(2) + (m1 - m2).pow(2)) / s2.pow(2) - 1
        return 0.5 * torch.sum(element, dim=1)

    def forward(self, x: Tensor, noise: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(x.size(1), self.h_dim, dtype=x.dtype, device=x.device)
        nll, kld = torch.zeros(x.size(1)), torch.zeros(x.size(1))
        means = []
        for t in range(x.size(0)):
            phi_x = self.phi_x(x[t])
            enc_mean, enc_std = self.enc(torch.cat([phi_x, h], 1)).chunk(2, 1)
            enc_std = F.softplus(enc_std) + 1e-4
            prior_mean, prior_std = self.prior(h).chunk(2, 1)
            prior_std = F.softplus(prior_std) + 1e-4
            if self.training:
                z = enc_mean + enc_std * noise[t]
            else:
                z = enc_mean
            phi_z = self.phi_z(z)
            dec_mean, dec_logvar = self.dec(torch.cat([phi_z, h], dim=1)).chunk(2, 1)
            dec_logvar = dec_logvar.clamp(-6.0, 3.0)
            h_new = self.cell(torch.cat([phi_x, phi_z], 1), h)
            alive = (t < lengths).to(x.dtype)
            h = torch.where(alive.unsqueeze(1) > 0, h_new, h)
            kld += alive * self.kl(enc_mean, enc_std, prior_mean, prior_std).clamp(min=self.free_nats)
            error = (x[t] - dec_mean) ** 2 * torch.exp(-dec_logvar) + dec_logvar + math.log(2 * math.pi)
            nll += alive * 0.5 * error.sum(1)
            means.append(dec_mean)
        loss = ((nll + kld) / lengths).mean()
        return loss, torch.stack(means)


model = VRNN()
inputs = (torch.randn(4, 3, 4), torch.randn(4, 3, 3), torch.tensor([4, 2, 3]))
