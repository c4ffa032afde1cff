"""FT-Transformer for tables: tokens of numbers and categories, pre-norm blocks with ReGLU, missing values."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Tokenizer(nn.Module):
    def __init__(self, numbers: int, categories: int, dim: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(dim)
        self.weight = nn.Parameter(torch.empty(numbers + 1, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(numbers, dim).uniform_(-bound, bound))
        self.missing = nn.Parameter(torch.zeros(numbers, dim))
        self.table = nn.Embedding(categories, dim)

    def forward(self, x: Tensor, cats: Tensor) -> Tensor:
        absent = torch.isnan(x)
        x = torch.where(absent, torch.zeros_like(x), x)
        x = torch.cat([torch.ones_like(x[:, :1]), x], dim=1)
        tokens = self.weight[None] * x[:, :, None]
        tokens[:, 1:] += self.bias
        tokens[:, 1:] += absent.unsqueeze(-1).to(tokens.dtype) * self.missing
        return torch.cat([tokens, self.table(cats)], 1)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm0, self.norm1 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.lin0, self.lin1 = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def reglu(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return a * F.relu(b)

    def forward(self, x: Tensor, only_first: bool) -> Tensor:
        h = self.norm0(x)
        n, length, dim = h.shape
        q, k, v = (
            self.qkv(h).view(n, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        )
        if only_first:
            q = q[:, :, :1]
            x = x[:, :1]
        attention = (q * (dim // self.heads) ** -0.5) @ k.transpose(-1, -2)
        attention = F.dropout(attention.softmax(-1), self.dropout, self.training)
        h = self.out((attention @ v).transpose(1, 2).flatten(2))
        x = x + h
        h = self.lin0(self.norm1(x))
        h = self.reglu(h)
        h = F.dropout(h, self.dropout, self.training)
        h = self.lin1(h)
        h += x
        return h


class FTTransformer(nn.Module):
    def __init__(self, numbers: int = 4, categories: int = 7, dim: int = 8) -> None:
        super().__init__()
        self.tokenizer = Tokenizer(numbers, categories, dim)
        self.block0, self.block1 = Block(dim, 2), Block(dim, 2)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 1)

    def forward(self, x: Tensor, cats: Tensor, target: Optional[Tensor] = None) -> Tensor:
        h = self.tokenizer(x, cats)
        h = self.block0(h, False)
        h = self.block1(h, True)
        out = self.head(F.relu_(self.norm(h[:, 0]))).squeeze(-1)
        if target is None:
            return out
        loss = F.smooth_l1_loss(out, target, reduction="none")
        loss *= (target > 0).float() + 0.5
        return loss.mean()


model = FTTransformer()
x = torch.randn(4, 4)
x[0, 1] = float("nan")
inputs = (x, torch.randint(0, 7, (4, 3)), torch.randn(4))
