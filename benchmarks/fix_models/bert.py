"""Two layers as in BERT of Hugging Face's transformers, written by hand; training, with dropout."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)
        self.out, self.up, self.down = (
            nn.Linear(size, size),
            nn.Linear(size, 4 * size),
            nn.Linear(4 * size, size),
        )
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.drop = nn.Dropout(0.1)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        scores = torch.matmul(self.split(self.query(x)), self.split(self.key(x)).transpose(-1, -2))
        scores = scores / 2.83 + mask
        context = torch.matmul(self.drop(F.softmax(scores, -1)), self.split(self.value(x)))
        context = context.permute(0, 2, 1, 3).reshape(x.shape)
        x = self.norm1(self.drop(self.out(context)) + x)
        return self.norm2(self.drop(self.down(F.gelu(self.up(x)))) + x)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(32, 4), Layer(32, 4)

    def forward(self, x, mask):
        mask = (1.0 - mask) * -10000.0
        return self.second(self.first(x, mask), mask)


model = Bert()
inputs = (torch.randn(2, 8, 32), torch.ones(2, 1, 1, 8))
