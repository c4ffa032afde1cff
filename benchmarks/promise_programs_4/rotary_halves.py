"""Attention with rotary embeddings that are written into halves of the heads in place."""

import torch
from torch import Tensor, nn


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first = x[..., :half]
    second = x[..., half:]
    out = torch.empty_like(x)
    out[..., :half] = first * cos - second * sin
    out[..., half:] = second * cos + first * sin
    return out


class Attention(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        score = q @ k.transpose(-2, -1)
        score.div_(2.828)
        score += torch.full((x.size(1), x.size(1)), -1e4, device=x.device).triu(1)
        return x + self.out(torch.softmax(score, -1) @ v)


model = Attention()
angle = torch.rand(5, 4)
inputs = (torch.randn(2, 5, 8), angle.cos(), angle.sin())
