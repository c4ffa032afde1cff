"""Attention by hand, causal and with padded keys."""

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        batch, steps, width = x.shape
        q, k, v = self.qkv(x).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        causal = torch.ones(steps, steps, dtype=torch.bool, device=x.device).tril()
        padded = torch.arange(steps, device=x.device)[None, :] >= lengths[:, None]
        scores = scores.masked_fill(~causal, float("-inf")).masked_fill(padded[:, None, None, :], -1e4)
        mixed = scores.softmax(-1) @ v
        return x + self.out(mixed.transpose(1, 2).reshape(batch, steps, width))


torch.manual_seed(0)
model = Attention(32, 4)
inputs = (torch.randn(3, 24, 32), torch.tensor([24, 17, 9]))
