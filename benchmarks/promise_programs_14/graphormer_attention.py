"""A graph transformer: centrality, spatial bias, edges along the shortest path, a virtual node."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EdgeBias(nn.Module):
    def __init__(self, heads: int = 2, hops: int = 3, edge_dim: int = 4) -> None:
        super().__init__()
        self.spatial = nn.Embedding(8, heads, padding_idx=0)
        self.edge = nn.Linear(edge_dim, heads)
        self.hop_weight = nn.Parameter(torch.randn(hops, heads, heads) * 0.3)
        self.virtual = nn.Parameter(torch.zeros(heads))
        self.hops = hops

    def forward(self, distance: Tensor, path: Tensor, bias: Tensor) -> Tensor:
        n = distance.size(1)
        out = bias.unsqueeze(1).repeat(1, self.virtual.numel(), 1, 1)
        out[:, :, 1:, 1:] += self.spatial(distance).permute(0, 3, 1, 2)
        t = self.virtual.view(1, -1, 1)
        out[:, :, 1:, 0] = out[:, :, 1:, 0] + t
        out[:, :, 0, :] = out[:, :, 0, :] + t
        hops = distance.clone()
        hops[hops == 0] = 1
        hops = torch.where(hops > 1, hops - 1, hops).clamp(max=self.hops)
        edges = self.edge(path)
        flat = edges.permute(3, 0, 1, 2, 4).reshape(self.hops, -1, self.virtual.numel())
        flat = torch.bmm(flat, self.hop_weight)
        edges = flat.view(self.hops, -1, n, n, self.virtual.numel()).permute(1, 2, 3, 0, 4)
        edges = edges.sum(-2) / hops.float().unsqueeze(-1)
        out[:, :, 1:, 1:] += edges.permute(0, 3, 1, 2)
        return out + bias.unsqueeze(1)


class GraphAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o, self.gate = nn.Linear(dim, dim), nn.Linear(dim, heads)

    def forward(self, x: Tensor, bias: Tensor, padding: Optional[Tensor]) -> Tensor:
        b, n, d = x.shape
        q = self.q(x).mul_(self.scale).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.k(x).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.v(x).view(b, n, self.heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) + bias
        if padding is not None:
            scores = scores.masked_fill(padding.unsqueeze(1).unsqueeze(2), float("-inf"))
        weights = torch.softmax(scores, dim=3)
        gate = torch.sigmoid(self.gate(x)).transpose(1, 2).unsqueeze(-1)
        y = torch.matmul(weights * gate, v)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class Graphormer(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.atom, self.degree = nn.Embedding(9, dim), nn.Embedding(5, dim)
        self.token = nn.Parameter(torch.randn(1, 1, dim))
        self.bias, self.attention = EdgeBias(), GraphAttention(dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 16), nn.Linear(16, dim)
        self.dropout, self.act = nn.Dropout(0.0), nn.GELU()

    def forward(self, atoms: Tensor, degree: Tensor, distance: Tensor, path: Tensor) -> Tuple[Tensor, Tensor]:
        padding = atoms.eq(0)
        nodes = self.atom(atoms)
        nodes += self.degree(degree)
        x = torch.cat([self.token.expand(atoms.size(0), -1, -1), nodes], dim=1)
        padding = F.pad(padding, [1, 0], value=False)
        bias = torch.zeros(atoms.size(0), x.size(1), x.size(1), device=x.device)
        x = x + self.dropout(self.attention(self.norm1(x), self.bias(distance, path, bias), padding))
        h = self.act(self.fc1(self.norm2(x)))
        x = x + self.dropout(self.fc2(h))
        x = x * (~padding).unsqueeze(-1).type_as(x)
        return x[:, 0], x


model = Graphormer()
inputs = (
    torch.tensor([[1, 2, 3, 4], [5, 6, 7, 0]]),
    torch.randint(0, 5, (2, 4)),
    torch.randint(0, 8, (2, 4, 4)),
    torch.randn(2, 4, 4, 3, 4),
)
