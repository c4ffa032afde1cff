"""SchNet: smeared distances, shifted softplus, a cosine cutoff times a mask, energies by molecule."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GaussianSmearing(nn.Module):
    def __init__(self, start: float, stop: float, count: int) -> None:
        super().__init__()
        offset = torch.linspace(start, stop, count)
        self.coeff = -0.5 / float(offset[1] - offset[0]) ** 2
        self.register_buffer("offset", offset)

    def forward(self, dist: Tensor) -> Tensor:
        dist = dist.view(-1, 1) - self.offset.view(1, -1)
        return torch.exp(self.coeff * torch.pow(dist, 2))


class ShiftedSoftplus(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = math.log(2.0)

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x) - self.shift


class CFConv(nn.Module):
    def __init__(self, dim: int, gaussians: int, cutoff: float) -> None:
        super().__init__()
        self.lin1 = nn.Linear(dim, dim, bias=False)
        self.lin2 = nn.Linear(dim, dim)
        self.nn = nn.Sequential(nn.Linear(gaussians, dim), ShiftedSoftplus(), nn.Linear(dim, dim))
        self.cutoff = cutoff

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor, attr: Tensor) -> Tensor:
        C = 0.5 * (torch.cos(weight * math.pi / self.cutoff) + 1.0)
        C *= (weight < self.cutoff).float()
        W = self.nn(attr) * C.view(-1, 1)
        x = self.lin1(x)
        message = x[edge_index[0]] * W
        out = torch.zeros_like(x)
        out = out.index_add(0, edge_index[1], message)
        return self.lin2(out)


class InteractionBlock(nn.Module):
    def __init__(self, dim: int, gaussians: int, cutoff: float) -> None:
        super().__init__()
        self.conv = CFConv(dim, gaussians, cutoff)
        self.act = ShiftedSoftplus()
        self.lin = nn.Linear(dim, dim)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor, attr: Tensor) -> Tensor:
        x = self.conv(x, edge_index, weight, attr)
        return self.lin(self.act(x))


class SchNet(nn.Module):
    def __init__(self, dim: int = 6, gaussians: int = 5, cutoff: float = 3.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, dim, padding_idx=0)
        self.distance_expansion = GaussianSmearing(0.0, cutoff, gaussians)
        self.interactions = nn.ModuleList([InteractionBlock(dim, gaussians, cutoff) for _ in range(2)])
        self.lin1 = nn.Linear(dim, dim // 2)
        self.act = ShiftedSoftplus()
        self.lin2 = nn.Linear(dim // 2, 1)
        self.register_buffer("atomref", torch.randn(10, 1))
        self.dipole: bool = True

    def forward(
        self, z: Tensor, pos: Tensor, edge_index: Tensor, batch: Tensor, mass: Tensor
    ) -> tuple[Tensor, Tensor]:
        h = self.embedding(z)
        row, col = edge_index[0], edge_index[1]
        weight = (pos[row] - pos[col]).norm(p=2, dim=-1)
        attr = self.distance_expansion(weight)
        for interaction in self.interactions:
            h = h + interaction(h, edge_index, weight, attr)
        h = self.lin2(self.act(self.lin1(h)))
        h += self.atomref[z]
        m = mass[z].view(-1, 1)
        total = torch.zeros(2, 1, device=pos.device).index_add(0, batch, m)
        center = torch.zeros(2, 3, device=pos.device).index_add(0, batch, m * pos) / total
        moment = h * (pos - center[batch])
        moment = torch.zeros(2, 3, device=pos.device).index_add(0, batch, moment)
        dipole = moment.pow(2).sum(dim=-1, keepdim=True).sqrt()
        energy = torch.zeros(2, 1, device=pos.device).index_add(0, batch, h)
        return energy, dipole


model = SchNet()
inputs = (
    torch.tensor([6, 1, 8, 7, 1, 1]),
    torch.randn(6, 3),
    torch.tensor([[0, 1, 0, 2, 3, 4, 3, 5], [1, 0, 2, 0, 4, 3, 5, 3]]),
    torch.tensor([0, 0, 0, 1, 1, 1]),
    torch.rand(10) + 1.0,
)
