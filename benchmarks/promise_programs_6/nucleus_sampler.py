"""Processors of logits before sampling: repetition penalty, temperature, top k, top p, forbidden tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor


def repetition_penalty(logits: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    score = torch.gather(logits, 1, tokens)
    score = torch.where(score < 0, score * penalty, score / penalty)
    return logits.scatter(1, tokens, score)


def model(
    logits: Tensor,
    tokens: Tensor,
    banned: Tensor,
    temperature: float = 0.7,
    top_k: int = 8,
    top_p: float = 0.9,
) -> tuple[Tensor, Tensor]:
    logits = logits.float()
    logits = repetition_penalty(logits, tokens, 1.2)
    logits = logits / temperature
    logits[:, banned] = -float("inf")
    kth = torch.topk(logits, top_k)[0][..., -1, None]
    logits = logits.masked_fill(logits < kth, -float("inf"))
    sorted_logits, sorted_indices = torch.sort(logits, descending=True)
    cumulative_probs = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
    remove = cumulative_probs > top_p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    indices_to_remove = remove.scatter(1, sorted_indices, remove)
    logits = logits.masked_fill(indices_to_remove, -1e4)
    probs = F.softmax(logits, dim=-1)
    entropy = -(probs * torch.log(probs + 1e-10)).sum(dim=-1)
    return probs, entropy


inputs = (torch.randn(2, 20), torch.randint(0, 20, (2, 5)), torch.tensor([3, 7]))
