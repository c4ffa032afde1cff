"""A graph isomorphism network: sums over edges, batch norm by hand with running values, virtual node."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class HandNorm(nn.Module):
    def __init__(self, width: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            mean = x.mean(0)
            var = ((x - mean) ** 2).mean(0)
            with torch.no_grad():
                self.mean.mul_(1 - self.momentum).add_(self.momentum * mean)
                self.var.mul_(1 - self.momentum).add_(self.momentum * var * x.size(0) / (x.size(0) - 1))
        else:
            mean, var = self.mean, self.var
        out = (x - mean) / torch.sqrt(var + 1e-5)
        return out * self.weight + self.bias


class GINConv(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.lin1, self.lin2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.bn = HandNorm(2 * width)
        self.edge = nn.Linear(2, width)

    def forward(self, x: Tensor, source: Tensor, target: Tensor, attr: Tensor) -> Tensor:
        message = F.relu(x[source] + self.edge(attr))
        out = torch.zeros_like(x)
        out.index_add_(0, target, message)
        out += (1 + self.eps) * x
        h = self.bn(self.lin1(out))
        h.relu_()
        return self.lin2(h)


class GIN(nn.Module):
    def __init__(self, width: int = 6, layers: int = 2, jk: str = "sum") -> None:
        super().__init__()
        self.jk = jk
        self.embed = nn.Embedding(5, width)
        self.convs = nn.ModuleList([GINConv(width) for _ in range(layers)])
        self.norms = nn.ModuleList([HandNorm(width) for _ in range(layers)])
        self.head = nn.Linear(width, 3)

    def forward(
        self, atoms: Tensor, edges: Tensor, attr: Tensor, batch: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        h = self.embed(atoms)
        source, target = edges[0], edges[1]
        every = [h]
        virtual = torch.zeros(2, h.size(1), dtype=h.dtype, device=h.device)
        for conv, norm in zip(self.convs, self.norms):
            h_in = every[-1] + virtual[batch]
            h = norm(conv(h_in, source, target, attr))
            h = F.relu(h) + h_in
            virtual = virtual.index_add(0, batch, h)
            every.append(h)
        h = every[-1] if self.jk == "last" else torch.stack(every).sum(0)
        pooled = torch.zeros_like(virtual).index_add_(0, batch, h)
        logits = self.head(pooled / torch.bincount(batch, minlength=2).unsqueeze(1))
        known = y == y
        loss = F.softplus(logits) - logits * torch.nan_to_num(y)
        loss = torch.where(known, loss, torch.zeros_like(loss))
        return loss.sum() / known.sum(), torch.sigmoid(logits)


model = GIN()
inputs = (
    torch.tensor([0, 1, 2, 3, 4, 1]),
    torch.tensor([[0, 1, 1, 2, 3, 4, 4, 5], [1, 0, 2, 1, 4, 3, 5, 4]]),
    torch.randn(8, 2),
    torch.tensor([0, 0, 0, 1, 1, 1]),
    torch.tensor([[1.0, 0.0, float("nan")], [0.0, float("nan"), 1.0]]),
)
