"""A pointer-generator: bidirectional states, coverage, copying, a decoder loop with teacher forcing."""

from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Coverage(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.w_h = nn.Linear(hidden, hidden, bias=False)
        self.w_s = nn.Linear(hidden, hidden)
        self.w_c = nn.Linear(1, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(
        self, state: Tensor, memory: Tensor, mask: Tensor, coverage: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        features = self.w_h(memory)
        features = features + self.w_s(state).unsqueeze(1)
        features += self.w_c(coverage.unsqueeze(2))
        scores = self.v(torch.tanh(features)).squeeze(2)
        attn = F.softmax(scores, dim=1) * mask
        attn = attn / attn.sum(1, keepdim=True).clamp(min=1e-8)
        context = (attn.unsqueeze(2) * memory).sum(1)
        return context, attn, coverage + attn


class PointerGenerator(nn.Module):
    def __init__(self, vocab: int = 9, dim: int = 5, hidden: int = 6, forcing: bool = True) -> None:
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, dim)
        self.encoder = nn.GRUCell(dim, hidden)
        self.cell = nn.GRUCell(dim + hidden, hidden)
        self.attention = Coverage(hidden)
        self.p_gen = nn.Linear(hidden * 2 + dim, 1)
        self.out = nn.Linear(hidden * 2, vocab)
        self.forcing = forcing

    def encode(self, source: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
        embedded = self.embed(source)
        h = torch.zeros(source.size(0), 6, device=source.device)
        states: List[Tensor] = []
        for t in range(source.size(1)):
            new = self.encoder(embedded[:, t], h)
            keep = mask[:, t : t + 1]
            h = keep * new + (1.0 - keep) * h
            states.append(h)
        return torch.stack(states, 1), h

    def forward(
        self, source: Tensor, target: Tensor, lengths: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor]:
        n, length = source.shape
        mask = torch.ones(n, length, device=source.device)
        if lengths is not None:
            mask = (torch.arange(length, device=source.device)[None] < lengths[:, None]).float()
        memory, h = self.encode(source, mask)
        coverage = torch.zeros_like(mask)
        context = torch.zeros_like(h)
        token = torch.zeros(n, dtype=torch.long, device=source.device)
        loss = torch.zeros(n, device=source.device)
        penalty = torch.zeros(n, device=source.device)
        tokens: List[Tensor] = []
        for t in range(target.size(1)):
            x = self.embed(token)
            h = self.cell(torch.cat([x, context], 1), h)
            before = coverage
            context, attn, coverage = self.attention(h, memory, mask, coverage)
            gate = torch.sigmoid(self.p_gen(torch.cat([context, h, x], 1)))
            words = F.softmax(self.out(torch.cat([h, context], 1)), dim=1)
            final = words * gate
            final = final.scatter_add(1, source, attn * (1.0 - gate))
            gold = final.gather(1, target[:, t : t + 1]).squeeze(1)
            step = -torch.log(gold + 1e-6)
            step *= (target[:, t] != 0).to(step.dtype)
            loss += step
            penalty += torch.min(attn, before).sum(1)
            guess = final.argmax(1)
            tokens.append(guess)
            token = target[:, t] if self.forcing and self.training else guess
        count = (target != 0).sum(1).clamp_(min=1)
        return (loss / count + 0.5 * penalty / count).mean(), torch.stack(tokens, 1)


model = PointerGenerator()
inputs = (
    torch.randint(1, 9, (2, 4)),
    torch.tensor([[3, 5, 1], [2, 4, 0]]),
    torch.tensor([4, 3]),
)
