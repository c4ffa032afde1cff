"""Molecules: PaiNN's messages and updates of scalars and vectors, an envelope, energies by molecule, charges."""

import math
from typing import List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Graph(NamedTuple):
    z: Tensor
    pos: Tensor
    source: Tensor
    target: Tensor
    batch: Tensor


@torch.jit.script
def scaled_silu(x: Tensor) -> Tensor:
    return F.silu(x) * (1.0 / 0.6)


class RadialBasis(nn.Module):
    def __init__(self, number: int, cutoff: float, exponent: int = 5):
        super().__init__()
        self.cutoff, self.p = cutoff, exponent
        self.a = -(exponent + 1) * (exponent + 2) / 2
        self.b = exponent * (exponent + 2)
        self.c = -exponent * (exponent + 1) / 2
        self.frequencies = nn.Parameter(math.pi * torch.arange(1, number + 1).float())

    def envelope(self, d: Tensor) -> Tensor:
        value = 1 + self.a * d**self.p + self.b * d ** (self.p + 1) + self.c * d ** (self.p + 2)
        return torch.where(d < 1, value, torch.zeros_like(d))

    def forward(self, d: Tensor) -> Tuple[Tensor, Tensor]:
        scaled = d / self.cutoff
        rbf = math.sqrt(2 / self.cutoff**3) / scaled[:, None] * torch.sin(self.frequencies * scaled[:, None])
        env = self.envelope(scaled)
        return env[:, None] * rbf, env


class Interaction(nn.Module):
    def __init__(self, width: int, number: int):
        super().__init__()
        self.width = width
        self.context1, self.context2 = nn.Linear(width, width), nn.Linear(width, 3 * width)
        self.filters = nn.Linear(number, 3 * width)

    def forward(self, q: Tensor, mu: Tensor, g: Graph, rbf: Tensor, env: Tensor, unit: Tensor):
        x = self.context2(scaled_silu(self.context1(q)))
        w = self.filters(rbf) * env.unsqueeze(-1)
        x = x[g.source] * w
        dq, dmu_r, dmu_mu = torch.split(x, self.width, dim=-1)
        dmu = dmu_r.unsqueeze(1) * unit.unsqueeze(-1) + dmu_mu.unsqueeze(1) * mu[g.source]
        q = q.index_add(0, g.target, dq)
        mu = mu.index_add(0, g.target, dmu)
        return q, mu


class Mixing(nn.Module):
    def __init__(self, width: int, epsilon: float = 1e-8):
        super().__init__()
        self.width, self.epsilon = width, epsilon
        self.mix = nn.Linear(width, 2 * width, bias=False)
        self.net = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, 3 * width))

    def forward(self, q: Tensor, mu: Tensor) -> Tuple[Tensor, Tensor]:
        v, w = torch.split(self.mix(mu), self.width, dim=-1)
        norm = torch.sqrt(torch.sum(v**2, dim=-2) + self.epsilon)
        x = self.net(torch.cat([q, norm], dim=-1))
        dq, dmu, dqmu = torch.split(x, self.width, dim=-1)
        dmu = dmu.unsqueeze(1) * w
        dqmu = dqmu * torch.sum(v * w, dim=1)
        q = q + dq + dqmu
        mu = mu + dmu
        return q, mu


class PaiNN(nn.Module):
    def __init__(self, width: int = 6, number: int = 5, layers: int = 2, cutoff: float = 3.0):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(10, width, padding_idx=0)
        self.basis = RadialBasis(number, cutoff)
        self.interactions = nn.ModuleList([Interaction(width, number) for _ in range(layers)])
        self.mixings = nn.ModuleList([Mixing(width) for _ in range(layers)])
        self.readout = nn.Linear(width, 2)
        self.register_buffer("shift", torch.tensor(-1.5))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, g: Graph, energy: Tensor, total_charge: Optional[Tensor] = None) -> Tuple[Tensor, List[Tensor]]:
        r = g.pos[g.source] - g.pos[g.target]
        d = torch.linalg.norm(r, dim=1) + 1e-6
        unit = r / d.unsqueeze(1)
        rbf, env = self.basis(d)
        q = self.embedding(g.z)
        mu = torch.zeros(q.size(0), 3, self.width, device=q.device)
        for interaction, mixing in zip(self.interactions, self.mixings):
            q, mu = interaction(q, mu, g, rbf, env, unit)
            q, mu = mixing(q, mu)
        out = self.readout(scaled_silu(q))
        atomwise, charge = out[:, 0], out[:, 1]
        molecules = energy.size(0)
        number = torch.bincount(g.batch, minlength=molecules).to(charge.dtype)
        if total_charge is not None:
            excess = torch.zeros(molecules, device=q.device).index_add_(0, g.batch, charge)
            excess -= total_charge
            charge = charge - (excess / number)[g.batch]
        dipole = torch.zeros(molecules, 3, device=q.device)
        dipole.index_add_(0, g.batch, charge.unsqueeze(1) * g.pos)
        atomwise = atomwise * self.scale + self.shift
        predicted = torch.zeros(molecules, device=q.device).index_add_(0, g.batch, atomwise)
        loss = ((predicted - energy) / number).abs().mean() + 0.1 * dipole.norm(p=2, dim=1).mean()
        return loss, [predicted, charge]


def inputs():
    pos = torch.randn(8, 3)
    source = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7])
    target = torch.tensor([1, 2, 3, 0, 2, 0, 1, 0, 2, 5, 6, 4, 7, 4, 7, 5, 6])
    graph = Graph(torch.tensor([6, 1, 1, 8, 6, 1, 1, 1]), pos, source, target, torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]))
    return graph, torch.tensor([-5.0, -4.0]), torch.tensor([0.0, 1.0])


model = PaiNN()
