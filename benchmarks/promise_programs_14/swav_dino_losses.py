"""Self-supervision: Sinkhorn's assignment of SwAV, DINO's centred teacher, masked tokens, KoLeo."""

from typing import Dict, List

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sinkhorn(scores: Tensor, iterations: int, epsilon: float) -> Tensor:
    with torch.no_grad():
        q = torch.exp(scores / epsilon).t()
        prototypes, samples = q.shape[0], q.shape[1]
        q /= torch.sum(q)
        for _ in range(iterations):
            q /= torch.sum(q, dim=1, keepdim=True)
            q /= prototypes
            q /= torch.sum(q, dim=0, keepdim=True)
            q /= samples
        q *= samples
    return q.t()


class Head(nn.Module):
    def __init__(self, dim: int = 6, out: int = 8) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, 12), nn.GELU(), nn.Linear(12, dim))
        self.weight_g, self.weight_v = nn.Parameter(torch.ones(out, 1)), nn.Parameter(torch.randn(out, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = self.mlp(x)
        x = F.normalize(x, dim=-1, p=2.0)
        weight = self.weight_v * (self.weight_g / self.weight_v.norm(p=2, dim=1, keepdim=True))
        return F.linear(x, weight)


def koleo(x: Tensor, eps: float = 1e-6) -> Tensor:
    x = F.normalize(x, dim=-1, eps=eps)
    dots = x @ x.t()
    n = x.size(0)
    dots.view(-1)[:: n + 1].fill_(-1.0)
    nearest = dots.argmax(1)
    distance = (x - x[nearest]).pow(2).sum(1).add_(eps).sqrt_()
    return -torch.log(distance * n + eps).mean()


class Pretraining(nn.Module):
    def __init__(self, dim: int = 6, out: int = 8) -> None:
        super().__init__()
        self.student, self.teacher = Head(dim, out), Head(dim, out)
        self.token = nn.Parameter(torch.zeros(dim))
        self.register_buffer("centre", torch.zeros(1, out))
        self.momentum, self.student_temp, self.teacher_temp = 0.9, 0.1, 0.04

    def forward(self, crops: List[Tensor], patches: Tensor, mask: Tensor) -> Dict[str, Tensor]:
        masked = torch.where(mask.unsqueeze(-1), self.token, patches)
        student = [self.student(crop) / self.student_temp for crop in crops]
        with torch.no_grad():
            raw = self.teacher(torch.stack(crops[:2]))
            teacher = F.softmax((raw - self.centre) / self.teacher_temp, dim=-1)
        loss = torch.zeros((), device=patches.device)
        terms = 0
        for i in range(2):
            for j, row in enumerate(student):
                if i == j:
                    continue
                loss += torch.sum(-teacher[i] * F.log_softmax(row, dim=-1), dim=-1).mean()
                terms += 1
        loss /= terms
        codes = sinkhorn(student[0].detach(), 3, 0.5)
        swap = -(codes * F.log_softmax(student[1], dim=1)).sum(1).mean()
        targets = F.softmax(self.teacher(patches).detach() / self.teacher_temp, dim=-1)
        token_loss = -(targets * F.log_softmax(self.student(masked) / self.student_temp, dim=-1)).sum(-1)
        token_loss *= mask
        token_loss = token_loss.sum(-1) / mask.sum(-1).clamp(min=1.0)
        if self.training:
            batch = raw.flatten(0, 1).mean(0, keepdim=True)
            self.centre = self.centre * self.momentum + batch * (1 - self.momentum)
        entropy = -(teacher * torch.log(teacher.clamp_min(1e-8))).sum(-1).mean()
        total = loss + 0.5 * swap + token_loss.mean() + 0.1 * koleo(crops[0])
        return {"loss": total, "entropy": entropy, "centre": self.centre}


model = Pretraining()
inputs = ([torch.randn(4, 6) for _ in range(3)], torch.randn(4, 5, 6), torch.rand(4, 5) > 0.5)
