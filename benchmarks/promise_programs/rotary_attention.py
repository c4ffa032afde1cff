"""Self-attention with rotary position encoding."""

import torch
from torch import Tensor, nn


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    turned = torch.cat([-b, a], -1)
    return x * cos + turned * sin


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.qkv(x).split(8, -1)
        q = rotate(q, cos, sin) * 0.35
        k = rotate(k, cos, sin)
        score = q @ k.transpose(-2, -1)
        score = score.clamp(-50.0, 50.0)
        return torch.softmax(score, -1) @ v + x


model = Attention()
angle = torch.randn(4, 8)
inputs = (torch.randn(2, 4, 8), angle.cos(), angle.sin())
