"""Window attention of Swin V2: cosine similarity, a learned scale and a continuous position bias."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CosineAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, window: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb = nn.Sequential(nn.Linear(2, 16), nn.ReLU(inplace=True), nn.Linear(16, heads, bias=False))
        self.register_buffer("coords", torch.randn(window * window, 2))
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(0.1, inplace=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, n, c = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scale = torch.clamp(self.logit_scale, max=math.log(100.0)).exp()
        attn = attn * scale
        position = self.cpb(self.coords).view(n, n, -1).permute(2, 0, 1)
        attn = attn + 16 * torch.sigmoid(position).unsqueeze(0)
        attn = attn + mask.unsqueeze(0).unsqueeze(0)
        attn = attn.softmax(dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(b, n, c)
        return self.drop(self.proj(out))


model = CosineAttention()
inputs = (torch.randn(2, 4, 8), torch.zeros(4, 4))
