"""A Heun step of Karras' sampler with churn, a small denoiser, and dynamic thresholding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Denoiser(nn.Module):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.freqs = nn.Parameter(torch.randn(4), requires_grad=False)
        self.emb = nn.Linear(8, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.sigma_data = 0.5

    def precondition(self, x: Tensor, sigma: Tensor) -> Tensor:
        sigma = sigma.to(torch.float32).reshape(-1, 1, 1, 1)
        c_skip = self.sigma_data**2 / (sigma**2 + self.sigma_data**2)
        c_out = sigma * self.sigma_data / (sigma**2 + self.sigma_data**2).sqrt()
        c_in = 1 / (self.sigma_data**2 + sigma**2).sqrt()
        c_noise = sigma.log() / 4
        h = c_noise.flatten()[:, None] * self.freqs[None, :] * 2 * 3.141592653589793
        emb = self.emb(torch.cat([h.cos(), h.sin()], dim=1))
        h = F.silu(self.conv1(c_in * x))
        h = h.add_(emb[:, :, None, None])
        f_x = self.conv2(F.silu(h))
        return c_skip * x + c_out * f_x.to(torch.float32)

    def threshold(self, x0: Tensor, p: float = 0.95) -> Tensor:
        s = torch.quantile(x0.reshape(x0.size(0), -1).abs(), p, dim=1)
        s.clamp_(min=1.0)
        s = s[:, None, None, None]
        return x0.clamp(-s, s) / s

    def forward(self, x_cur: Tensor, t_cur: Tensor, t_next: Tensor, noise: Tensor) -> Tensor:
        gamma = 0.4
        t_hat = t_cur + gamma * t_cur
        step = (t_hat**2 - t_cur**2).sqrt()[:, None, None, None]
        x_hat = x_cur + step * 1.003 * noise
        denoised = self.threshold(self.precondition(x_hat, t_hat))
        t_h, t_n = t_hat[:, None, None, None], t_next[:, None, None, None]
        d_cur = (x_hat - denoised) / t_h
        x_next = x_hat + (t_n - t_h) * d_cur
        denoised = self.threshold(self.precondition(x_next, t_next))
        d_prime = (x_next - denoised) / t_n
        return x_hat + (t_n - t_h) * (0.5 * d_cur + 0.5 * d_prime)


model = Denoiser()
inputs = (
    torch.randn(2, 3, 6, 6),
    torch.tensor([2.0, 1.5]),
    torch.tensor([1.0, 0.7]),
    torch.randn(2, 3, 6, 6),
)
