"""Gated residual networks of a temporal fusion transformer, with variable selection and quantile loss."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GLU(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return torch.mul(self.sigmoid(self.fc1(x)), self.fc2(x))


class GRN(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.context = nn.Linear(dim, dim, bias=False)
        self.elu = nn.ELU(inplace=True)
        self.dropout = nn.Dropout(0.1, inplace=True)
        self.glu = GLU(dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        eta = self.lin2(self.elu(self.lin1(x) + self.context(c)))
        return self.norm(x + self.glu(self.dropout(eta)))


class Fusion(nn.Module):
    def __init__(self, dim: int = 8, variables: int = 3) -> None:
        super().__init__()
        self.grns = nn.ModuleList([GRN(dim) for _ in range(variables)])
        self.select = nn.Linear(dim * variables, variables)
        self.head = nn.Linear(dim, 3)
        self.register_buffer("quantiles", torch.tensor([0.1, 0.5, 0.9]))

    def forward(self, x: Tensor, c: Tensor, y: Tensor) -> Tensor:
        weights = F.softmax(self.select(x.flatten(1)), dim=-1).unsqueeze(-1)
        transformed = []
        for i, grn in enumerate(self.grns):
            transformed.append(grn(x[:, i], c))
        fused = (weights * torch.stack(transformed, 1)).sum(1)
        pred = self.head(F.elu(fused))
        error = y.unsqueeze(-1) - pred
        return torch.max((self.quantiles - 1) * error, self.quantiles * error).sum(-1).mean()


model = Fusion().eval()
inputs = (torch.randn(4, 3, 8), torch.randn(4, 8), torch.randn(4))
