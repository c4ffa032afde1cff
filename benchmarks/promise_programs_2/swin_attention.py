"""Window attention of Swin with scaled cosine similarity and a bias table."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class WindowAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, window: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((heads, 1, 1))))
        self.table = nn.Parameter(torch.randn(heads, window, window) * 0.02)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        logit_scale = torch.clamp(self.logit_scale, max=4.6052).exp()
        attn = attn * logit_scale
        attn = attn + (16 * torch.sigmoid(self.table)).unsqueeze(0)
        attn = attn.masked_fill(mask.unsqueeze(1), -100.0)
        attn = F.softmax(attn, dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))


model = WindowAttention()
inputs = (torch.randn(2, 4, 8), torch.rand(2, 4, 4) > 0.7)
