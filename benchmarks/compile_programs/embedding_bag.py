"""A ranking model: bags of embeddings, dense features, products of all pairs, a small tower."""

import torch
from torch import Tensor, nn


class Ranker(nn.Module):
    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode=mode) for mode in ("sum", "mean"))
        self.dense = nn.Sequential(nn.Linear(8, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + 3, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, first: Tensor, second: Tensor) -> Tensor:
        features = [self.dense(dense), self.bags[0](first), self.bags[1](second)]
        stacked = torch.stack(features, 1)
        products = stacked @ stacked.transpose(1, 2)
        rows, columns = torch.tril_indices(3, 3, -1, device=dense.device)
        pairs = products[:, rows, columns]
        return torch.sigmoid(self.top(torch.cat([features[0], pairs], 1))).squeeze(1)


torch.manual_seed(0)
model = Ranker(50, 12)
inputs = (torch.randn(6, 8), torch.randint(50, (6, 5)), torch.randint(50, (6, 7)))
