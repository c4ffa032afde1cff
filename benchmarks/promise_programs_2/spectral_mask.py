"""A complex ratio mask on a spectrogram and its compressed loss."""

import torch
from torch import Tensor, nn


class Mask(nn.Module):
    def __init__(self, bins: int = 9) -> None:
        super().__init__()
        self.lin = nn.Linear(bins, 2 * bins)
        self.prelu = nn.PReLU()

    def forward(self, real: Tensor, imag: Tensor, target: Tensor) -> Tensor:
        mag = torch.sqrt(real**2 + imag**2 + 1e-9)
        phase = torch.atan2(imag, real)
        m = self.lin(self.prelu(torch.log1p(mag)))
        m_r, m_i = torch.chunk(torch.tanh(m) * 5, 2, dim=-1)
        mask_mag = torch.hypot(m_r, m_i).clamp_(max=1.0)
        mask_phase = torch.atan2(m_i, m_r)
        est_mag = mask_mag * mag
        est_phase = phase + mask_phase
        est = torch.stack([est_mag * torch.cos(est_phase), est_mag * torch.sin(est_phase)], dim=-1)
        compressed = est_mag.clamp(min=1e-8).pow(0.3)
        loss = (compressed - target.pow(0.3)).square().mean()
        return est * (1.0 - loss)


model = Mask()
inputs = (torch.randn(2, 5, 9), torch.randn(2, 5, 9), torch.rand(2, 5, 9))
