"""EDM preconditioning with Heun's second-order step and its loss weight."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EDM(nn.Module):
    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.sigma_data = 0.5
        self.emb = nn.Linear(1, d)
        self.inner = nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def denoise(self, x: Tensor, sigma: Tensor) -> Tensor:
        sigma = sigma.reshape(-1, 1)
        c_skip = self.sigma_data**2 / (sigma**2 + self.sigma_data**2)
        c_out = sigma * self.sigma_data / (sigma**2 + self.sigma_data**2).sqrt()
        c_in = 1 / (self.sigma_data**2 + sigma**2).sqrt()
        c_noise = sigma.log() / 4
        h = self.inner(c_in * x) + self.emb(c_noise)
        h = F.silu(h)
        return c_skip * x + c_out * self.out(h).to(torch.float32)

    def forward(self, x: Tensor, sigma: Tensor, next_sigma: Tensor) -> tuple[Tensor, Tensor]:
        denoised = self.denoise(x, sigma)
        d_cur = (x - denoised) / sigma[:, None]
        x_next = x + (next_sigma - sigma)[:, None] * d_cur
        again = self.denoise(x_next, next_sigma)
        d_prime = (x_next - again) / next_sigma[:, None]
        x_next = x + (next_sigma - sigma)[:, None] * (0.5 * d_cur + 0.5 * d_prime)
        weight = (sigma**2 + self.sigma_data**2) / (sigma * self.sigma_data) ** 2
        loss = (weight[:, None] * ((denoised - x) ** 2)).mean()
        return x_next, loss


model = EDM()
inputs = (torch.randn(4, 16), torch.rand(4) + 1.0, torch.rand(4) * 0.5 + 0.1)
