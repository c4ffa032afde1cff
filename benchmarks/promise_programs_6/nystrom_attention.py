"""Nystrom attention with landmarks and the iterated inverse, with a mask of padding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NystromAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, landmarks: int = 2) -> None:
        super().__init__()
        self.heads, self.landmarks = heads, landmarks
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.res_conv = nn.Conv2d(heads, heads, (3, 1), padding=(1, 0), groups=heads, bias=False)

    def inverse(self, mat: Tensor, steps: int = 3) -> Tensor:
        k = mat
        v = 1 / torch.max(torch.sum(k.abs(), dim=-2)) * k.transpose(-1, -2)
        i = torch.eye(k.size(-1), device=k.device)
        for _ in range(steps):
            kv = torch.matmul(k, v)
            v = torch.matmul(0.25 * v, 13 * i - torch.matmul(kv, 15 * i - torch.matmul(kv, 7 * i - kv)))
        return v

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, n, d = x.size(0), x.size(1), x.size(2)
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q = q.view(b, n, self.heads, -1).transpose(1, 2)
        k = k.view(b, n, self.heads, -1).transpose(1, 2)
        v = v.view(b, n, self.heads, -1).transpose(1, 2)
        m = mask[:, None, :, None].type_as(x)
        q, k, v = q * self.scale * m, k * m, v * m
        length = n // self.landmarks
        ql = q.reshape(b, self.heads, self.landmarks, length, -1).mean(dim=-2)
        kl = k.reshape(b, self.heads, self.landmarks, length, -1).mean(dim=-2)
        kernel_1 = F.softmax(q @ kl.transpose(-1, -2), dim=-1)
        kernel_2 = F.softmax(ql @ kl.transpose(-1, -2), dim=-1)
        scores = ql @ k.transpose(-1, -2) - 1e9 * (1 - mask[:, None, None, :].type_as(x))
        kernel_3 = F.softmax(scores, dim=-1)
        out = (kernel_1 @ self.inverse(kernel_2)) @ (kernel_3 @ v)
        out += self.res_conv(v)
        return out.transpose(1, 2).reshape(b, n, d)


model = NystromAttention()
inputs = (torch.randn(2, 4, 8), torch.tensor([[True, True, True, True], [True, True, True, False]]))
