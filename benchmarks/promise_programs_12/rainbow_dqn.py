"""Rainbow: noisy layers, a duelling head over atoms, the projection of the target's distribution."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NoisyLinear(nn.Module):
    def __init__(self, in_features: int, out_features: int, sigma: float = 0.5) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(in_features)
        self.weight_mu = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((out_features, in_features), sigma * bound))
        self.bias_mu = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.bias_sigma = nn.Parameter(torch.full((out_features,), sigma * bound))
        self.register_buffer("eps_in", torch.randn(in_features))
        self.register_buffer("eps_out", torch.randn(out_features))

    def scale(self, x: Tensor) -> Tensor:
        return x.sign().mul_(x.abs().sqrt_())

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            eps_in, eps_out = self.scale(self.eps_in), self.scale(self.eps_out)
            weight = self.weight_mu + self.weight_sigma * torch.outer(eps_out, eps_in)
            return F.linear(x, weight, self.bias_mu + self.bias_sigma * eps_out)
        return F.linear(x, self.weight_mu, self.bias_mu)


class Network(nn.Module):
    def __init__(self, obs: int = 6, actions: int = 3, atoms: int = 7) -> None:
        super().__init__()
        self.actions, self.atoms = actions, atoms
        self.body = nn.Linear(obs, 12)
        self.value, self.advantage = NoisyLinear(12, atoms), NoisyLinear(12, actions * atoms)
        self.register_buffer("support", torch.linspace(-2.0, 2.0, atoms))

    def forward(self, x: Tensor, log: bool = False) -> Tensor:
        x = F.relu_(self.body(x))
        v = self.value(x).view(-1, 1, self.atoms)
        a = self.advantage(x).view(-1, self.actions, self.atoms)
        q = v + a - a.mean(1, keepdim=True)
        if log:
            return F.log_softmax(q, dim=2)
        return F.softmax(q, dim=2).clamp(min=1e-3)


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = Network(), Network()
        self.v_min, self.v_max, self.discount, self.n = -2.0, 2.0, 0.9, 3

    def project(self, dist: Tensor, returns: Tensor, nonterminal: Tensor) -> Tensor:
        atoms = dist.size(1)
        delta_z = (self.v_max - self.v_min) / (atoms - 1)
        tz = returns.unsqueeze(1) + nonterminal * (self.discount**self.n) * self.online.support.unsqueeze(0)
        tz = tz.clamp(min=self.v_min, max=self.v_max)
        b = (tz - self.v_min) / delta_z
        lower, upper = b.floor().to(torch.int64), b.ceil().to(torch.int64)
        lower[(upper > 0) * (lower == upper)] -= 1
        upper[(lower < (atoms - 1)) * (lower == upper)] += 1
        m = torch.zeros_like(dist)
        offset = torch.arange(dist.size(0), device=dist.device).unsqueeze(1) * atoms
        m.view(-1).index_add_(0, (lower + offset).view(-1), (dist * (upper.float() - b)).view(-1))
        m.view(-1).index_add_(0, (upper + offset).view(-1), (dist * (b - lower.float())).view(-1))
        return m

    def forward(
        self, s: Tensor, a: Tensor, returns: Tensor, s2: Tensor, nonterminal: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        log_ps = self.online(s, log=True)
        rows = torch.arange(s.size(0), device=s.device)
        log_ps_a = log_ps[rows, a]
        with torch.no_grad():
            pns = self.online(s2)
            dns = self.online.support.expand_as(pns) * pns
            best = dns.sum(2).argmax(1)
            m = self.project(self.target(s2)[rows, best], returns, nonterminal)
        loss = -torch.sum(m * log_ps_a, 1)
        priority = loss.detach().abs()
        priority += 1e-6
        priority.pow_(0.5)
        return (weights * loss).mean(), priority / priority.max()


model = Agent()
inputs = (
    torch.randn(4, 6),
    torch.randint(0, 3, (4,)),
    torch.randn(4),
    torch.randn(4, 6),
    torch.tensor([[1.0], [1.0], [0.0], [1.0]]),
    torch.rand(4),
)
