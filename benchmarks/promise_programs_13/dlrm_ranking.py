"""DLRM with pairwise interactions, a DIN-like unit, GloVe's loss, and listwise ranking losses."""

from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dice(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        p = torch.sigmoid(self.bn(x))
        return p * x + (1.0 - p) * self.alpha * x


class DLRM(nn.Module):
    def __init__(self, dim: int = 4, tables: int = 3) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(7, dim) for _ in range(tables)])
        self.bottom = nn.Sequential(
            nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, dim), nn.ReLU(inplace=True)
        )
        self.register_buffer("rows", torch.tensor([1, 2, 2, 3, 3, 3]))
        self.register_buffer("cols", torch.tensor([0, 0, 1, 0, 1, 2]))
        self.top1, self.dice, self.top2 = nn.Linear(dim + 6, 8), Dice(8), nn.Linear(8, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        dense = torch.log1p(dense.clamp(min=0.0))
        x = self.bottom(dense)
        features: List[Tensor] = [x]
        for i, table in enumerate(self.tables):
            features.append(table(sparse[:, i]))
        stacked = torch.stack(features, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        flat = products[:, self.rows, self.cols]
        z = torch.cat([x, flat], dim=1)
        return self.top2(self.dice(self.top1(z))).squeeze(-1)


def list_mle(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    order = labels.masked_fill(~mask, -1e4).argsort(dim=1, descending=True)
    ordered = scores.gather(1, order)
    valid = mask.gather(1, order)
    ordered = ordered.masked_fill(~valid, -1e4)
    top = ordered.max(dim=1, keepdim=True)[0]
    cumulative = (ordered - top).exp().flip([1]).cumsum(1).flip([1])
    loss = torch.log(cumulative + 1e-6) - (ordered - top)
    loss[~valid] = 0.0
    return loss.sum(1).mean()


def approx_ndcg(scores: Tensor, labels: Tensor, mask: Tensor, alpha: float = 1.0) -> Tensor:
    diff = (scores[:, None, :] - scores[:, :, None]) * alpha
    approx = torch.sigmoid(diff)
    approx = approx * mask[:, None, :]
    position = 0.5 + approx.sum(-1)
    gains = torch.pow(2.0, labels) - 1.0
    gains *= mask
    ideal = gains.sort(dim=1, descending=True)[0]
    ranks = torch.arange(labels.size(1), device=labels.device, dtype=labels.dtype) + 2.0
    best = (ideal / torch.log2(ranks)).sum(1).clamp_(min=1e-6)
    dcg = (gains / torch.log2(1.0 + position)).sum(1)
    return 1.0 - (dcg / best).mean()


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = DLRM()
        self.left, self.right = nn.Embedding(7, 3), nn.Embedding(7, 3)
        self.bias = nn.Embedding(7, 1)

    def glove(self, i: Tensor, j: Tensor, count: Tensor) -> Tensor:
        weight = (count / 10.0).pow(0.75)
        weight.clamp_(max=1.0)
        guess = (self.left(i) * self.right(j)).sum(1)
        guess += self.bias(i).squeeze(1)
        guess += self.bias(j).squeeze(1)
        return (weight * (guess - torch.log(count)) ** 2).mean()

    def forward(
        self, dense: Tensor, sparse: Tensor, labels: Tensor, mask: Tensor, count: Tensor
    ) -> Tuple[Tensor, Tensor]:
        n, length = labels.shape
        scores = self.model(dense, sparse).view(n, length)
        click = F.binary_cross_entropy_with_logits(scores, (labels > 0).float(), reduction="none")
        click *= mask
        loss = click.sum() / mask.sum().clamp(min=1)
        loss = loss + list_mle(scores, labels, mask) + 0.5 * approx_ndcg(scores, labels, mask.float())
        loss += 0.1 * self.glove(sparse[:, 0], sparse[:, 1], count)
        return torch.sigmoid(scores), loss


model = Ranker()
inputs = (
    torch.rand(8, 5) * 3.0 - 0.5,
    torch.randint(0, 7, (8, 3)),
    torch.tensor([[0.0, 1.0, 2.0, 0.0], [1.0, 0.0, 0.0, 3.0]]),
    torch.tensor([[True, True, True, False], [True, True, True, True]]),
    torch.rand(8) * 20.0 + 1.0,
)
