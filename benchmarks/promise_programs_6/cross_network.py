"""A deep and cross network with a factorisation machine, the click model of a recommender."""

import torch
from torch import Tensor, nn


class ClickModel(nn.Module):
    def __init__(self, fields: int = 4, dim: int = 8, dense: int = 5) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(50, dim, mode="sum")
        self.table = nn.Embedding(40, dim)
        width = (fields + 1) * dim + dense
        self.cross_w = nn.ParameterList([nn.Parameter(torch.randn(width, width) * 0.05) for _ in range(2)])
        self.cross_b = nn.ParameterList([nn.Parameter(torch.zeros(width)) for _ in range(2)])
        self.deep = nn.Sequential(
            nn.Linear(width, 16),
            nn.BatchNorm1d(16),
            nn.PReLU(),
            nn.Dropout(0.1),
            nn.Linear(16, 16),
            nn.PReLU(),
        )
        self.top = nn.Linear(width + 16, 1)

    def forward(self, ids: Tensor, bag: Tensor, dense: Tensor) -> Tensor:
        emb = self.table(ids)
        square_of_sum = emb.sum(dim=1).pow(2)
        sum_of_square = emb.pow(2).sum(dim=1)
        fm = 0.5 * (square_of_sum - sum_of_square).sum(dim=1, keepdim=True)
        dense = torch.log1p(dense.clamp(min=0.0))
        x0 = torch.cat([emb.flatten(1), self.embed(bag), dense], dim=1)
        x = x0
        for w, b in zip(self.cross_w, self.cross_b):
            x = x0 * (torch.matmul(x, w) + b) + x
        logit = self.top(torch.cat([x, self.deep(x0)], dim=1)) + fm
        return torch.sigmoid(logit).squeeze(1)


model = ClickModel().eval()
inputs = (torch.randint(0, 40, (3, 4)), torch.randint(0, 50, (3, 6)), torch.randn(3, 5))
