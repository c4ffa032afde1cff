"""APPNP and a graph transformer's head: propagation with teleports over a dense graph, pooled attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class APPNP(nn.Module):
    def __init__(
        self, inside: int = 6, hidden: int = 8, classes: int = 4, k: int = 3, alpha: float = 0.1
    ) -> None:
        super().__init__()
        self.k, self.alpha, self.drop = k, alpha, 0.0
        self.lin1, self.lin2 = nn.Linear(inside, hidden), nn.Linear(hidden, classes)
        self.attend = nn.Linear(classes, 1)
        self.scale = nn.Parameter(torch.ones(classes))

    def normalised(self, adjacency: Tensor) -> Tensor:
        a = adjacency + torch.eye(adjacency.size(0), device=adjacency.device)
        degree = a.sum(dim=1)
        inverse = degree.pow(-0.5)
        inverse[torch.isinf(inverse)] = 0.0
        a = inverse.unsqueeze(1) * a * inverse.unsqueeze(0)
        if self.training and self.drop > 0.0:
            a = F.dropout(a, self.drop)
        return a

    def forward(self, x: Tensor, adjacency: Tensor, labels: Tensor, train: Tensor) -> tuple[Tensor, Tensor]:
        h = F.relu(self.lin1(x))
        h = F.normalize(h, p=2.0, dim=-1)
        h = self.lin2(h)
        z = h
        a = self.normalised(adjacency)
        for _ in range(self.k):
            z = a @ z
            z *= 1 - self.alpha
            z += self.alpha * h
        z = z * self.scale
        score = self.attend(z).squeeze(-1)
        score = score.masked_fill(~train, -1e4)
        weight = score.softmax(0)
        pooled = (weight.unsqueeze(-1) * z).sum(0)
        log_p = z - z.logsumexp(-1, keepdim=True)
        one_hot = F.one_hot(labels, 4).to(log_p.dtype)
        one_hot *= 0.9
        one_hot += 0.1 / 4
        loss = -(one_hot * log_p).sum(-1)
        keep = train.to(loss.dtype)
        loss = (loss * keep).sum() / keep.sum()
        entropy = -(log_p.exp() * log_p).sum(-1)
        loss += 0.01 * entropy.mean()
        return loss, pooled.tanh()


model = APPNP()
adjacency = (torch.rand(7, 7) > 0.6).float()
inputs = (
    torch.randn(7, 6),
    torch.maximum(adjacency, adjacency.t()),
    torch.randint(0, 4, (7,)),
    torch.tensor([True, True, False, True, False, True, True]),
)
