"""A residual block of a one-dimensional diffusion model (WaveGrad): FiLM, snake activation, scaled skip."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Snake(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, c, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + (1.0 / (self.alpha + 1e-9)) * torch.sin(self.alpha * x).pow(2)


class FiLMResBlock(nn.Module):
    def __init__(self, c: int = 6) -> None:
        super().__init__()
        self.act1, self.act2 = Snake(c), Snake(c)
        self.conv1 = nn.Conv1d(c, c, 3, padding=1)
        self.conv2 = nn.Conv1d(c, 2 * c, 3, padding=1)
        self.film = nn.Linear(4, 2 * c)

    def forward(self, x: Tensor, noise_level: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.arange(2, device=x.device) / 2
        encoding = noise_level.unsqueeze(1) * torch.exp(-4.0 * steps.unsqueeze(0))
        encoding = torch.cat([torch.sin(encoding), torch.cos(encoding)], dim=-1)
        shift, scale = self.film(encoding).unsqueeze(-1).chunk(2, dim=1)
        y = self.conv1(self.act1(x))
        y = scale * y + shift
        y = self.conv2(self.act2(y))
        gate, content = torch.chunk(y, 2, dim=1)
        y = torch.sigmoid(gate) * torch.tanh(content)
        y = F.dropout(y, p=0.1, training=False)
        return (x + y) / 2**0.5, F.mish(y)


model = FiLMResBlock()
inputs = (torch.randn(2, 6, 10), torch.rand(2))
