"""Two blocks as in GPT-2 of Hugging Face's transformers, written by hand; inference."""

import math

import torch
from torch import nn

torch.manual_seed(0)


class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.act = NewGELU()
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64, dtype=torch.bool)))

    def split(self, x):
        return x.reshape(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.qkv(self.ln_1(x)).chunk(3, 2)
        scores = torch.matmul(self.split(q), self.split(k).transpose(2, 3)) * 0.25
        n = x.size(1)
        scores = scores.masked_fill(~self.mask[:n, :n], -10000.0)
        y = torch.matmul(self.drop(torch.softmax(scores, -1)), self.split(v))
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(x.shape)))
        return x + self.drop(self.down(self.act(self.up(self.ln_2(x)))))


model = nn.Sequential(Block(32, 4), Block(32, 4)).eval()
inputs = (torch.randn(2, 8, 32),)
