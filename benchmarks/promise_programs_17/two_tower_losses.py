"""Retrieval: two towers with sampled softmax, BPR, alignment with uniformity, CCL, negatives from a queue."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Tower(nn.Module):
    def __init__(self, sizes: int, dim: int, hidden: int, act: str = "gelu"):
        super().__init__()
        self.table = nn.EmbeddingBag(sizes, dim, mode="mean")
        self.layers = nn.ModuleList()
        for a, b in ((dim, hidden), (hidden, hidden), (hidden, dim)):
            self.layers.append(nn.Linear(a, b))
        self.act = act
        self.ln = nn.LayerNorm(dim)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < last:
                if self.act == "gelu":
                    x = 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
                elif self.act == "relu6":
                    x = F.relu6(x)
                else:
                    x = F.hardswish(x)
        return F.normalize(self.ln(x), dim=-1, eps=1e-12)


def bpr_loss(pos_scores: Tensor, neg_scores: Tensor) -> Tensor:
    return -(1e-10 + torch.sigmoid(pos_scores.unsqueeze(1) - neg_scores)).log().mean()


def ccl_loss(pos: Tensor, neg: Tensor, margin: float, weight: float) -> Tensor:
    pos_loss = torch.relu(1 - pos)
    neg_loss = torch.relu(neg - margin)
    return (pos_loss + weight * neg_loss.mean(dim=-1)).mean()


def alignment(x: Tensor, y: Tensor, alpha: int = 2) -> Tensor:
    return (x - y).norm(p=2.0, dim=1).pow(alpha).mean()


def uniformity(x: Tensor, t: float = 2.0) -> Tensor:
    n = x.size(0)
    gram = x @ x.t()
    sq = (2 - 2 * gram).clamp(min=0)
    keep = torch.triu(torch.ones(n, n, dtype=torch.bool, device=x.device), diagonal=1)
    return sq[keep].mul(-t).exp().mean().log()


class Retrieval(nn.Module):
    def __init__(self, users: int = 40, items: int = 50, dim: int = 8, temperature: float = 0.07, queue: int = 12):
        super().__init__()
        self.user, self.item = Tower(users, dim, 12), Tower(items, dim, 12, "relu6")
        self.log_temperature = nn.Parameter(torch.tensor(temperature).log())
        self.queue_size, self.use_queue, self.hard_weight = queue, True, 0.3
        self.register_buffer("queue", F.normalize(torch.randn(queue, dim), dim=-1))
        self.register_buffer("queue_ids", torch.full((queue,), -1))
        self.register_buffer("step", torch.full((items,), 10.0))

    def sampling_log_q(self, ids: Tensor) -> Tensor:
        with torch.no_grad():
            estimate = self.step[ids]
            updated = estimate * 0.95 + 0.05 * 8.0
            return -torch.log(updated.clamp(min=1.0))

    def forward(self, user_ids: Tensor, item_ids: Tensor, positive: Tensor, sample_weight: Optional[Tensor] = None):
        u, v = self.user(user_ids), self.item(item_ids)
        scale = torch.exp(-self.log_temperature).clamp(max=100.0)
        logits = u @ v.t()
        raw = logits.clone()
        logits = logits * scale - self.sampling_log_q(positive)[None, :]
        same = positive[:, None] == positive[None, :]
        same.fill_diagonal_(False)
        logits = logits.masked_fill(same, -1e9)
        if self.use_queue:
            extra = torch.matmul(u, self.queue.t())
            extra *= scale
            collide = positive.unsqueeze(1) == self.queue_ids.unsqueeze(0)
            extra[collide] = -1e9
            logits = torch.cat((logits, extra), dim=1)
        labels = torch.arange(u.size(0), device=u.device)
        loss = F.cross_entropy(logits, labels, reduction="none")
        if sample_weight is not None:
            loss = loss * sample_weight / sample_weight.mean()
        eye = torch.eye(u.size(0), dtype=torch.bool, device=u.device)
        pos = raw.diagonal()
        neg = raw.masked_select(~eye).view(u.size(0), -1)
        hardness = torch.softmax(neg.detach() / 0.1, dim=1)
        weighted = (neg * hardness).sum(1)
        hinge = (0.2 + weighted - pos).clamp_min_(0.0)
        total = loss.mean() + 0.1 * bpr_loss(pos, neg) + 0.1 * ccl_loss(pos, neg, 0.4, 0.5)
        total += self.hard_weight * hinge.mean()
        total += 0.05 * (alignment(u, v) + 0.5 * (uniformity(u) + uniformity(v)))
        rank = (raw > pos.unsqueeze(1)).sum(dim=1)
        hits = (rank < 3).to(torch.float32).mean()
        ndcg = (1.0 / torch.log2(rank.to(torch.float32) + 2.0)).masked_fill(rank >= 3, 0.0).mean()
        return total, hits, ndcg


model = Retrieval()
inputs = (torch.randint(0, 40, (10, 3)), torch.randint(0, 50, (10, 2)), torch.randint(0, 50, (10,)), torch.rand(10))
