"""PyTorch Geometric's GCNConv and GraphNorm: self loops, degrees, the inverse root made in place."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def gcn_norm(
    edge_index: Tensor, edge_weight: Optional[Tensor], num_nodes: int, improved: bool
) -> tuple[Tensor, Tensor]:
    fill = 2.0 if improved else 1.0
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), device=edge_index.device)
    loops = torch.arange(num_nodes, device=edge_index.device).unsqueeze(0).repeat(2, 1)
    loop_weight = torch.full((num_nodes,), fill, device=edge_index.device)
    edge_index = torch.cat([edge_index, loops], dim=1)
    edge_weight = torch.cat([edge_weight, loop_weight], dim=0)
    row, col = edge_index[0], edge_index[1]
    deg = torch.zeros(num_nodes, device=edge_index.device).scatter_add_(0, col, edge_weight)
    deg_inv_sqrt = deg.pow_(-0.5)
    deg_inv_sqrt.masked_fill_(deg_inv_sqrt == float("inf"), 0)
    return edge_index, deg_inv_sqrt[row] * edge_weight * deg_inv_sqrt[col]


class GCNConv(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        x = self.lin(x)
        x_j = x.index_select(0, edge_index[0])
        message = edge_weight.view(-1, 1) * x_j
        out = torch.zeros_like(x).index_add_(0, edge_index[1], message)
        out += self.bias
        return out


class GraphNorm(nn.Module):
    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.mean_scale = nn.Parameter(torch.ones(channels))
        self.eps = eps

    def mean_of(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        total = torch.zeros(size, x.size(1), device=x.device).index_add_(0, batch, x)
        count = torch.zeros(size, device=x.device).index_add_(0, batch, torch.ones_like(x[:, 0]))
        return total / count.clamp_(min=1).unsqueeze(1)

    def forward(self, x: Tensor, batch: Tensor, size: int) -> Tensor:
        mean = self.mean_of(x, batch, size)
        out = x - mean.index_select(0, batch) * self.mean_scale
        var = self.mean_of(out.pow(2), batch, size)
        std = (var + self.eps).sqrt().index_select(0, batch)
        return self.weight * out / std + self.bias


class GCN(nn.Module):
    def __init__(self, inputs: int = 4, hidden: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(inputs, hidden), GCNConv(hidden, hidden)
        self.norm1, self.norm2 = GraphNorm(hidden), GraphNorm(hidden)
        self.lin = nn.Linear(hidden, classes)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_weight: Optional[Tensor] = None
    ) -> Tensor:
        edge_index, weight = gcn_norm(edge_index, edge_weight, x.size(0), False)
        xs: list[Tensor] = []
        x = F.relu(self.norm1(self.conv1(x, edge_index, weight), batch, 2), inplace=True)
        x = F.dropout(x, p=0.5, training=False)
        xs.append(x)
        x = F.elu_(self.norm2(self.conv2(x, edge_index, weight), batch, 2))
        xs.append(x)
        x = torch.stack(xs, dim=-1).max(dim=-1)[0]
        pooled = torch.zeros(2, x.size(1), device=x.device).index_add_(0, batch, x)
        return F.log_softmax(self.lin(pooled), dim=-1)


model = GCN()
inputs = (
    torch.randn(6, 4),
    torch.tensor([[0, 1, 2, 3, 4, 1, 2], [1, 0, 1, 4, 3, 2, 0]]),
    torch.tensor([0, 0, 0, 1, 1, 1]),
    torch.rand(7) + 0.1,
)
