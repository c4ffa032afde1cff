"""The scale-invariant signal to noise ratio of a separated signal, and a mask on a spectrogram."""

import torch
from torch import Tensor, nn


class SeparationLoss(nn.Module):
    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, channels, 4, stride=2, bias=False)
        self.mask = nn.Conv1d(channels, channels, 1)
        self.prelu = nn.PReLU()
        self.decoder = nn.ConvTranspose1d(channels, 1, 4, stride=2, bias=False)

    def forward(self, mixture: Tensor, target: Tensor) -> Tensor:
        w = torch.relu(self.encoder(mixture))
        est = self.decoder(w * torch.sigmoid(self.mask(self.prelu(w)))).squeeze(1)
        est = est - torch.mean(est, dim=-1, keepdim=True)
        target = target - torch.mean(target, dim=-1, keepdim=True)
        dot = torch.sum(est * target, dim=-1, keepdim=True)
        energy = torch.sum(target**2, dim=-1, keepdim=True) + 1e-8
        proj = dot * target / energy
        noise = est - proj
        ratio = torch.sum(proj**2, dim=-1) / (torch.sum(noise**2, dim=-1) + 1e-8)
        return -(10 * torch.log10(ratio + 1e-8)).mean()


model = SeparationLoss()
inputs = (torch.randn(2, 1, 32), torch.randn(2, 32))
