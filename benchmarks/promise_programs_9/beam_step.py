"""One step of a beam search: temperature, repetition and length penalties, banned tokens, finished beams."""

import torch
import torch.nn.functional as F
from torch import Tensor


def penalise(logits: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    score = torch.gather(logits, 1, tokens)
    score = torch.where(score < 0, score * penalty, score / penalty)
    return logits.scatter(1, tokens, score)


def model(
    logits: Tensor, tokens: Tensor, beam_scores: Tensor, finished: Tensor, banned: Tensor, length: int
) -> tuple[Tensor, Tensor, Tensor]:
    beams, vocab = logits.shape
    logits = logits.float()
    logits = penalise(logits, tokens, 1.2)
    logits /= 0.8
    logits.masked_fill_(banned, float("-inf"))
    scores = F.log_softmax(logits, dim=-1)
    eos = torch.full_like(scores, float("-inf"))
    eos[:, 0] = 0.0
    scores = torch.where(finished.unsqueeze(1), eos, scores)
    scores = scores + beam_scores[:, None]
    norm = ((5.0 + float(length)) / 6.0) ** 0.6
    ranked = (scores / norm).view(-1)
    best, index = torch.topk(ranked, beams)
    source = torch.div(index, vocab, rounding_mode="floor")
    token = index % vocab
    best *= norm
    done = finished[source] | (token == 0)
    best = best.masked_fill(done & (best < -50.0), -1e9)
    return best, source, token


inputs = (
    torch.randn(4, 20),
    torch.randint(0, 20, (4, 6)),
    torch.tensor([0.0, -0.3, -0.9, -1.2]),
    torch.tensor([False, True, False, False]),
    torch.rand(4, 20) > 0.9,
    7,
)
