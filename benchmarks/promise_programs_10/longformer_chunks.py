"""Longformer's sliding chunks: overlapping windows by as_strided, the corners masked in place."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def pad_and_diagonalize(chunked: Tensor) -> Tensor:
    total, chunks, window, hidden = chunked.size()
    chunked = F.pad(chunked, (0, window + 1))
    chunked = chunked.view(total, chunks, -1)
    chunked = chunked[:, :, :-window]
    chunked = chunked.view(total, chunks, window, window + hidden)
    return chunked[:, :, :, :-1]


def chunk(hidden: Tensor, window: int) -> Tensor:
    hidden = hidden.view(hidden.size(0), hidden.size(1) // (window * 2), window * 2, hidden.size(2))
    size = [hidden.size(0), hidden.size(1) * 2 - 1, hidden.size(2), hidden.size(3)]
    stride = [hidden.stride(0), hidden.stride(1) // 2, hidden.stride(2), hidden.stride(3)]
    return hidden.as_strided(size, stride)


def mask_invalid_locations(scores: Tensor, overlap: int) -> Tensor:
    mask = torch.ones(overlap, overlap + 1, device=scores.device).tril().flip(dims=[0])[None, :, None, :]
    ending = mask.flip(dims=[1, 3])
    first = scores[:, :overlap, :, : overlap + 1]
    first.masked_fill_(mask.expand(first.size()) == 1, -float("inf"))
    last = scores[:, -overlap:, :, -(overlap + 1) :]
    last.masked_fill_(ending.expand(last.size()) == 1, -float("inf"))
    return scores


def sliding_qk(query: Tensor, key: Tensor, window: int) -> Tensor:
    batch, length, heads, dim = query.size()
    chunks = length // window - 1
    query = query.transpose(1, 2).reshape(batch * heads, length, dim)
    key = key.transpose(1, 2).reshape(batch * heads, length, dim)
    scores = torch.einsum("bcxd,bcyd->bcxy", chunk(query, window), chunk(key, window))
    scores = F.pad(scores, (0, 0, 0, 1)).view(batch * heads, chunks, 2 * window, 2 * window + 1)
    out = scores.new_zeros([batch * heads, chunks + 1, window, window * 2 + 1])
    out[:, :-1, :, window:] = scores[:, :, :window, : window + 1]
    out[:, -1, :, window:] = scores[:, -1, window:, : window + 1]
    out[:, 1:, :, :window] = scores[:, :, -(window + 1) : -1, window + 1 :]
    out[:, 0, 1:window, 1:window] = scores[:, 0, : window - 1, 1 - window :]
    out = out.view(batch, heads, length, 2 * window + 1).transpose(2, 1)
    return mask_invalid_locations(out, window)


class LongformerSelfAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2, window: int = 2) -> None:
        super().__init__()
        self.heads, self.head_dim, self.window = heads, dim // heads, window
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, hidden: Tensor, attention_mask: Tensor, is_index_masked: Tensor) -> Tensor:
        hidden = hidden.transpose(0, 1)
        length, batch, dim = hidden.size()
        query = self.query(hidden)
        key = self.key(hidden)
        value = self.value(hidden)
        query /= self.head_dim**0.5
        query = query.view(length, batch, self.heads, self.head_dim).transpose(0, 1)
        key = key.view(length, batch, self.heads, self.head_dim).transpose(0, 1)
        scores = sliding_qk(query, key, self.window)
        remove = (attention_mask != 0)[:, :, None, None]
        float_mask = remove.type_as(query).masked_fill(remove, -3.4028234663852886e38)
        ones = torch.ones_like(float_mask)
        diagonal = sliding_qk(ones, float_mask, self.window)
        scores += diagonal
        probs = F.softmax(scores, dim=-1, dtype=torch.float32)
        probs = torch.masked_fill(probs, is_index_masked[:, :, None, None], 0.0)
        probs = probs.type_as(scores)
        value = value.view(length, batch, self.heads, self.head_dim).transpose(0, 1)
        chunks = length // self.window - 1
        p = probs.transpose(1, 2).reshape(
            batch * self.heads, length // self.window, self.window, 2 * self.window + 1
        )
        v = value.transpose(1, 2).reshape(batch * self.heads, length, self.head_dim)
        v = F.pad(v, (0, 0, self.window, self.window), value=-1.0)
        v = v.as_strided(
            [batch * self.heads, chunks + 1, 3 * self.window, self.head_dim],
            [v.stride(0), self.window * v.stride(1), v.stride(1), v.stride(2)],
        )
        context = torch.einsum("bcwd,bcdh->bcwh", pad_and_diagonalize(p), v)
        context = context.reshape(batch, self.heads, length, self.head_dim).transpose(1, 2)
        return context.reshape(batch, length, dim).contiguous()


model = LongformerSelfAttention()
inputs = (
    torch.randn(2, 8, 8),
    torch.tensor([[0.0] * 8, [0.0] * 6 + [-10000.0] * 2]),
    torch.tensor([[False] * 8, [False] * 6 + [True] * 2]),
)
