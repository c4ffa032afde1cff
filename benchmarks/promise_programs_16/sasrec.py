"""SASRec: self-attention over items that a user saw, with padding masks and sampled negatives."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int, p: float, act: str) -> None:
        super().__init__()
        self.heads, self.p, self.act = heads, p, act
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.ln1, self.ln2 = nn.LayerNorm(hidden, eps=1e-8), nn.LayerNorm(hidden, eps=1e-8)
        self.conv1, self.conv2 = nn.Conv1d(hidden, hidden, 1), nn.Conv1d(hidden, hidden, 1)

    def forward(self, x: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        b, n, d = x.size()
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q = q.view(b, n, self.heads, -1).transpose(1, 2)
        k = k.view(b, n, self.heads, -1).transpose(1, 2)
        v = v.view(b, n, self.heads, -1).transpose(1, 2)
        score = q @ k.transpose(-2, -1)
        score = score / math.sqrt(d / self.heads)
        score = score + bias
        p = F.dropout(score.softmax(-1), self.p, self.training)
        x = x + self.out((p @ v).transpose(1, 2).reshape(b, n, d))
        h = self.conv1(self.ln2(x).transpose(1, 2))
        if self.act == "gelu":
            h = h * 0.5 * (1.0 + torch.erf(h / math.sqrt(2.0)))
        else:
            h = F.relu(h)
        h = self.conv2(h).transpose(1, 2)
        x = x + h
        x *= mask.unsqueeze(-1)
        return x


class SASRec(nn.Module):
    def __init__(
        self, items: int = 12, hidden: int = 8, length: int = 6, p: float = 0.0, act: str = "gelu"
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.items = nn.Embedding(items, hidden, padding_idx=0)
        self.places = nn.Embedding(length, hidden)
        self.layers = nn.ModuleList([Layer(hidden, 2, p, act) for _ in range(2)])
        self.last = nn.LayerNorm(hidden, eps=1e-8)

    def forward(self, log: Tensor, pos: Tensor, neg: Tensor) -> tuple[Tensor, Tensor]:
        x = self.items(log)
        x *= self.hidden**0.5
        x += self.places(torch.arange(log.size(1), device=log.device))
        seen = (log != 0).to(x.dtype)
        x = x * seen.unsqueeze(-1)
        causal = torch.triu(torch.ones(log.size(1), log.size(1), device=x.device), diagonal=1).to(torch.bool)
        blocked = causal[None] | (log == 0)[:, None, :]
        bias = torch.zeros(blocked.shape, device=x.device, dtype=x.dtype)
        bias[blocked] = -10000.0
        bias = bias.unsqueeze(1)
        for layer in self.layers:
            x = layer(x, seen, bias)
        feats = self.last(x)
        pos_logits = (feats * self.items(pos)).sum(dim=-1)
        neg_logits = (feats * self.items(neg)).sum(dim=-1)
        loss = -torch.log(torch.sigmoid(pos_logits) + 1e-8) - torch.log(1 - torch.sigmoid(neg_logits) + 1e-8)
        loss = (loss * seen).sum() / seen.sum()
        auc = ((torch.sign(pos_logits - neg_logits) + 1) / 2 * seen).sum() / seen.sum()
        return loss, auc


model = SASRec()
log = torch.tensor([[0, 0, 3, 5, 1, 7], [2, 4, 6, 8, 9, 11]])
inputs = (log, torch.randint(1, 12, (2, 6)), torch.randint(1, 12, (2, 6)))
