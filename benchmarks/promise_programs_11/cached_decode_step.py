"""A decoding step with a static cache: keys written into the caller's buffers, soft caps."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    out = x * cos
    out += torch.cat((-x2, x1), dim=-1) * sin
    return out


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        h = h * (1.0 + self.weight.float())
        return h.type_as(x)


class Layer(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, window: int = 4) -> None:
        super().__init__()
        self.heads, self.head_dim, self.window = heads, dim // heads, window
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)

    def forward(
        self, x: Tensor, cache_k: Tensor, cache_v: Tensor, position: int, cos: Tensor, sin: Tensor
    ) -> Tensor:
        b, n, d = x.shape
        h = self.norm1(x)
        q = self.q(h).view(b, n, self.heads, self.head_dim).transpose(1, 2)
        k = self.k(h).view(b, n, self.heads, self.head_dim).transpose(1, 2)
        v = self.v(h).view(b, n, self.heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        cache_k[:, :, position : position + n] = k.detach()
        cache_v[:, :, position : position + n] = v.detach()
        end = position + n
        k, v = cache_k[:, :, :end], cache_v[:, :, :end]
        scores = q @ k.transpose(-1, -2)
        scores /= math.sqrt(self.head_dim)
        scores = 20.0 * torch.tanh(scores / 20.0)
        rows = torch.arange(position, end, device=x.device)[:, None]
        columns = torch.arange(end, device=x.device)[None, :]
        hidden = (columns > rows) | (columns <= rows - self.window)
        scores = scores.masked_fill(hidden, float("-inf"))
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        out = (weights @ v).transpose(1, 2).reshape(b, n, d)
        x = x + self.o(out)
        h = self.norm2(x)
        g = F.gelu(self.gate(h), approximate="tanh")
        g *= self.up(h)
        return x + self.down(g)


class Decoder(nn.Module):
    def __init__(self, dim: int = 8, vocab: int = 11) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layer = Layer(dim)
        self.norm = RMSNorm(dim)
        self.dim = dim
        inv = 1.0 / (100.0 ** (torch.arange(0, dim // 2, 2).float() / (dim // 2)))
        self.register_buffer("inv", inv)

    def forward(
        self, ids: Tensor, cache_k: Tensor, cache_v: Tensor, position: int, temperature: float
    ) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        x *= self.dim**0.5
        angle = torch.arange(position, position + ids.size(1), device=ids.device).float()[:, None] * self.inv
        emb = torch.cat((angle, angle), dim=-1)
        x = self.layer(x, cache_k, cache_v, position, emb.cos(), emb.sin())
        logits = self.norm(x[:, -1]) @ self.embed.weight.t()
        logits = 30.0 * torch.tanh(logits / 30.0)
        logits /= temperature
        top = logits.topk(3, dim=-1)[0][:, -1:]
        logits[logits < top] = float("-inf")
        return F.softmax(logits, dim=-1), x


model = Decoder()
inputs = (torch.randint(0, 11, (2, 2)), torch.zeros(2, 2, 8, 4), torch.zeros(2, 2, 8, 4), 3, 0.7)
