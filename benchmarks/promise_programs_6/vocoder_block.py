"""Residual blocks of a vocoder: leaky ReLU and snake between convolutions, means of branches."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LRELU_SLOPE = 0.1


class Snake(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha = torch.exp(self.alpha).unsqueeze(0).unsqueeze(-1)
        return x + (1.0 / (alpha + 1e-9)) * torch.pow(torch.sin(x * alpha), 2)


class ResBlock(nn.Module):
    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, kernel, padding=kernel // 2)
        self.conv2 = nn.Conv1d(channels, channels, kernel, dilation=3, padding=3 * (kernel // 2))
        self.snake = Snake(channels)

    def forward(self, x: Tensor) -> Tensor:
        xt = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(F.leaky_relu(x, 0.1)), 0.1)), 0.1)
        xt += x
        return self.snake(xt)


class Vocoder(nn.Module):
    def __init__(self, mels: int = 8, channels: int = 8) -> None:
        super().__init__()
        self.pre = nn.Conv1d(mels, channels, 7, padding=3)
        self.up = nn.ConvTranspose1d(channels, channels, 4, 2, padding=1)
        self.blocks = nn.ModuleList([ResBlock(channels, k) for k in (3, 5)])
        self.post = nn.Conv1d(channels, 1, 7, padding=3, bias=False)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.up(F.leaky_relu(self.pre(mel), 0.1))
        xs = torch.zeros_like(x)
        for block in self.blocks:
            xs += block(x)
        x = xs / 2
        x = self.post(F.leaky_relu(x))
        return torch.clamp(torch.tanh(x), min=-1.0, max=1.0)


model = Vocoder()
inputs = (torch.randn(2, 8, 6),)
