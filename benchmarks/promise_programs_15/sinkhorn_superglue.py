"""SuperGlue: attentional matching of key points, and Sinkhorn's normalisation with a dustbin."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AttentionalPropagation(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.merge = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 2 * dim), nn.ReLU(inplace=True), nn.Linear(2 * dim, dim))

    def split(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        return x.view(n, length, self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, source: Tensor, valid: Tensor) -> Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(source)), self.split(self.v(source))
        scores = q @ k.transpose(-1, -2)
        scores /= q.size(-1) ** 0.5
        scores.masked_fill_(~valid[:, None, None, :], -1e4)
        message = scores.softmax(-1) @ v
        message = self.merge(message.transpose(1, 2).flatten(2))
        return x + self.mlp(torch.cat([x, message], -1))


class Matcher(nn.Module):
    def __init__(self, dim: int = 8, iterations: int = 3) -> None:
        super().__init__()
        self.iterations = iterations
        self.encode = nn.Linear(3, dim)
        self.own, self.cross = AttentionalPropagation(dim, 2), AttentionalPropagation(dim, 2)
        self.bin_score = nn.Parameter(torch.tensor(1.0))

    def optimal_transport(self, scores: Tensor) -> Tensor:
        b, m, n = scores.shape
        bins0 = self.bin_score.expand(b, m, 1)
        bins1 = self.bin_score.expand(b, 1, n)
        alpha = self.bin_score.expand(b, 1, 1)
        couplings = torch.cat([torch.cat([scores, bins0], -1), torch.cat([bins1, alpha], -1)], 1)
        norm = -torch.log(torch.tensor(float(m + n), device=scores.device))
        log_mu = torch.cat([norm.expand(m), torch.log(torch.tensor([float(n)], device=scores.device)) + norm])
        log_nu = torch.cat([norm.expand(n), torch.log(torch.tensor([float(m)], device=scores.device)) + norm])
        u, v = torch.zeros(b, m + 1, device=scores.device), torch.zeros(b, n + 1, device=scores.device)
        for _ in range(self.iterations):
            u = log_mu - torch.logsumexp(couplings + v.unsqueeze(1), dim=2)
            v = log_nu - torch.logsumexp(couplings + u.unsqueeze(2), dim=1)
        z = couplings + u.unsqueeze(2) + v.unsqueeze(1)
        z -= norm
        return z

    def forward(
        self, p0: Tensor, d0: Tensor, p1: Tensor, d1: Tensor, valid0: Tensor, valid1: Tensor
    ) -> Tensor:
        x0 = d0 + self.encode(p0)
        x1 = d1 + self.encode(p1)
        x0, x1 = F.normalize(x0, dim=-1), F.normalize(x1, dim=-1)
        x0, x1 = self.own(x0, x0, valid0), self.own(x1, x1, valid1)
        y0 = self.cross(x0, x1, valid1)
        y1 = self.cross(x1, x0, valid0)
        scores = y0 @ y1.transpose(1, 2)
        scores *= y0.size(-1) ** -0.5
        return self.optimal_transport(scores).exp()


model = Matcher()
inputs = (
    torch.rand(2, 5, 3),
    torch.randn(2, 5, 8),
    torch.rand(2, 4, 3),
    torch.randn(2, 4, 8),
    torch.tensor([[True] * 5, [True] * 4 + [False]]),
    torch.ones(2, 4, dtype=torch.bool),
)
