"""A text model's input: a sinusoidal table filled by slices, token masking, time shift, label noise."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(1)
        position = torch.arange(n, device=x.device, dtype=torch.float).unsqueeze(1)
        div = torch.exp(
            torch.arange(0, self.dim, 2, device=x.device).float() * (-math.log(10000.0) / self.dim)
        )
        pe = torch.zeros(n, self.dim, device=x.device)
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        return x * math.sqrt(self.dim) + pe.unsqueeze(0)


class TokenShift(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(1, 1, dim))

    def forward(self, x: Tensor) -> Tensor:
        previous = F.pad(x, [0, 0, 1, -1])
        out = x.clone()
        out *= self.mix
        out += previous * (1 - self.mix)
        return out


class Embeddings(nn.Module):
    def __init__(self, vocab: int = 12, dim: int = 6) -> None:
        super().__init__()
        self.word = nn.Embedding(vocab, dim, padding_idx=0)
        self.kind = nn.Embedding(2, dim)
        self.position = PositionalEncoding(dim)
        self.shift = TokenShift(dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.head = nn.Linear(dim, vocab)
        self.token_dropout: bool = True

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        noise: Tensor,
        kinds: Optional[Tensor] = None,
        labels: Optional[Tensor] = None,
    ) -> tuple[Tensor, Optional[Tensor]]:
        x = self.word(ids)
        if self.token_dropout:
            x = x.masked_fill((ids == 3).unsqueeze(-1), 0.0)
            lengths = mask.sum(-1)
            observed = (ids == 3).sum(-1).float() / lengths
            x = x * 0.88 / (1 - observed)[:, None, None]
        if kinds is None:
            kinds = torch.zeros_like(ids)
        x = x + self.kind(kinds)
        x = self.position(x)
        if self.training:
            x = x + 0.1 * noise
        x = self.shift(self.norm(x))
        x *= mask.unsqueeze(-1).to(x.dtype)
        logits = self.head(x)
        if labels is None:
            return logits, None
        logp = F.log_softmax(logits.float(), -1)
        nll = -logp.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        smooth = -logp.mean(-1)
        loss = 0.9 * nll + 0.1 * smooth
        loss[labels < 0] = 0.0
        valid = (labels >= 0).to(loss.dtype)
        loss *= valid
        return logits, loss.sum() / valid.sum().clamp_(min=1.0)


model = Embeddings()
inputs = (
    torch.tensor([[4, 5, 3, 7], [8, 3, 0, 0]]),
    torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
    torch.randn(2, 4, 6),
    torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]]),
    torch.tensor([[4, 5, 6, -100], [-100, 9, -100, -100]]),
)
