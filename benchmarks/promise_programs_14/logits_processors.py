"""Generation's processors of logits: penalties, bans, temperature, min-p, typical, top-a, and a watermark."""

import math
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn


def repetition_penalty(scores: Tensor, ids: Tensor, penalty: float) -> Tensor:
    score = torch.gather(scores, 1, ids)
    score = torch.where(score < 0, score * penalty, score / penalty)
    return scores.scatter(1, ids, score)


def frequency_penalty(scores: Tensor, counts: Tensor, frequency: float, presence: float) -> Tensor:
    scores = scores - counts * frequency
    scores -= (counts > 0).to(scores.dtype) * presence
    return scores


def min_p(scores: Tensor, ratio: float) -> Tensor:
    probs = torch.softmax(scores, dim=-1)
    limit = probs.max(dim=-1, keepdim=True)[0] * ratio
    return scores.masked_fill(probs < limit, -float("inf"))


def top_a(scores: Tensor, a: float) -> Tensor:
    probs = scores.softmax(dim=-1)
    limit = torch.pow(probs.max(dim=-1, keepdim=True)[0], 2) * a
    scores[probs < limit] = -1e4
    return scores


def typical(scores: Tensor, mass: float) -> Tensor:
    normalised = torch.log_softmax(scores, dim=-1)
    p = torch.exp(normalised)
    entropy = -(normalised * p).nansum(-1, keepdim=True)
    shifted = torch.abs((-normalised) - entropy)
    ordered, index = torch.sort(shifted, descending=False)
    cumulative = scores.gather(-1, index).softmax(dim=-1).cumsum(dim=-1)
    last = (cumulative < mass).sum(dim=1)
    last.clamp_(max=ordered.shape[-1] - 1)
    remove = ordered > ordered.gather(1, last.view(-1, 1))
    remove[..., :2] = False
    return scores.masked_fill(remove.scatter(1, index, remove), -1e4)


class Processors(nn.Module):
    def __init__(self, vocabulary: int = 24, temperature: float = 0.8, eos: int = 1) -> None:
        super().__init__()
        self.temperature, self.eos, self.vocabulary = temperature, eos, vocabulary
        self.min_length: int = 4
        self.guidance: Optional[float] = 1.5
        green = torch.zeros(vocabulary, dtype=torch.bool)
        green[::3] = True
        self.register_buffer("green", green)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, logits: Tensor, unconditional: Optional[Tensor], ids: Tensor, bans: List[int], length: int
    ) -> Tuple[Tensor, Tensor, Tensor]:
        scores = logits.float() + self.bias
        guidance = self.guidance
        if unconditional is not None and guidance is not None:
            base = torch.log_softmax(unconditional.float(), dim=-1)
            scores = guidance * (torch.log_softmax(scores, dim=-1) - base) + base
        scores = repetition_penalty(scores, ids, 1.2)
        counts = torch.zeros_like(scores)
        counts.scatter_add_(1, ids, torch.ones_like(ids, dtype=scores.dtype))
        scores = frequency_penalty(scores, counts, 0.1, 0.2)
        if length < self.min_length:
            scores[:, self.eos] = -1e4
        for token in bans:
            scores[:, token] = -1e4
        scores[:, self.green] += 2.0
        scores /= self.temperature
        scores = 30.0 * torch.tanh(scores / 30.0)
        scores = typical(top_a(min_p(scores, 0.02), 0.1), 0.9)
        probs = torch.softmax(scores, dim=-1)
        noise = -torch.log(-torch.log(torch.linspace(0.01, 0.99, self.vocabulary, device=probs.device)))
        token = (torch.log(probs + 1e-9) + noise).argmax(-1)
        finished = (ids == self.eos).any(dim=1)
        token = token.masked_fill(finished, 0)
        hits = self.green[token].to(probs.dtype) * (~finished).to(probs.dtype)
        z = (hits.sum() - 0.33 * hits.numel()) / math.sqrt(0.33 * 0.67 * hits.numel())
        return token, probs, z


model = Processors()
inputs = (torch.randn(4, 24) * 3, torch.randn(4, 24), torch.randint(2, 24, (4, 6)), [5, 7], 2)
