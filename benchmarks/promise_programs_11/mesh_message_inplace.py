"""MeshGraphNets and EGNN-like layers: edges updated in place, means by scatter."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def scatter_mean(x: Tensor, index: Tensor, size: int) -> Tensor:
    out = x.new_zeros([size, x.size(1)])
    out.index_add_(0, index, x)
    count = x.new_zeros([size])
    count.index_add_(0, index, torch.ones_like(index, dtype=x.dtype))
    count.clamp_(min=1.0)
    out /= count.unsqueeze(1)
    return out


class MLP(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, outputs)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h = h * torch.sigmoid(h)
        return self.norm(self.second(h))


class Layer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.edge = MLP(3 * dim + 1, dim, dim)
        self.node = MLP(2 * dim, dim, dim)
        self.coord = nn.Linear(dim, 1, bias=False)

    def forward(
        self, h: Tensor, e: Tensor, pos: Tensor, src: Tensor, dst: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        diff = pos[src] - pos[dst]
        dist = diff.pow(2).sum(1, keepdim=True)
        message = self.edge(torch.cat([h[src], h[dst], e, dist], 1))
        e = e + message
        agg = scatter_mean(message, dst, h.size(0))
        update = self.node(torch.cat([h, agg], 1))
        update += h
        weight = torch.tanh(self.coord(message))
        shift = diff / (dist + 1e-8).sqrt_()
        shift *= weight
        shift.clamp_(-1.0, 1.0)
        pos = pos + scatter_mean(shift, dst, h.size(0))
        return update, e, pos


class Net(nn.Module):
    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.encode = nn.Linear(2, dim)
        self.encode_edge = nn.Linear(1, dim)
        self.layers = nn.ModuleList([Layer(dim) for _ in range(2)])
        self.decode = nn.Linear(dim, 2)

    def forward(
        self, x: Tensor, pos: Tensor, edges: Tensor, kind: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        src, dst = edges[0], edges[1]
        start = pos
        h = F.elu(self.encode(x), inplace=True)
        e = self.encode_edge((pos[src] - pos[dst]).norm(p=2, dim=1, keepdim=True))
        for layer in self.layers:
            h, e, pos = layer(h, e, pos, src, dst)
        out = self.decode(h)
        out[kind == 1] = 0.0
        error = (out - target).pow(2).sum(1)
        error *= (kind == 0).float()
        drift = (pos - start).abs().mean()
        return out, error.sum() / (kind == 0).sum().clamp(min=1) + 0.1 * drift


model = Net()
inputs = (
    torch.randn(5, 2),
    torch.randn(5, 2),
    torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 0, 3, 2, 0, 4, 1]]),
    torch.tensor([0, 0, 1, 0, 0]),
    torch.randn(5, 2),
)
