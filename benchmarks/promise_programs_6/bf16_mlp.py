"""A block that casts as autocast does: linear layers in bfloat16, norms and softmax in float32."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MixedBlock(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.w1 = nn.Parameter(torch.randn(2 * dim, dim) * 0.2)
        self.w2 = nn.Parameter(torch.randn(dim, 2 * dim) * 0.2)
        self.gate = nn.Parameter(torch.zeros(dim))
        self.temperature = nn.Parameter(torch.ones(1))

    def linear(self, x: Tensor, w: Tensor) -> Tensor:
        return F.linear(x.to(torch.bfloat16), w.to(torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype
        h = self.norm(x.float()).to(dtype)
        h = self.linear(h, self.w1)
        h = F.gelu(h.float(), approximate="tanh")
        h = self.linear(h, self.w2).to(x.dtype)
        scores = torch.softmax(h.float() / self.temperature.clamp(min=0.1), dim=-1).type_as(x)
        h = h * scores * self.gate.sigmoid().to(h.dtype)
        return (x.float() + h.float()).to(dtype).clamp_(-65504.0, 65504.0)


model = MixedBlock()
inputs = (torch.randn(4, 8),)
