"""Noisy labels: mixup, symmetric and generalised cross entropy, Poly-1, a memory."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RobustLoss(nn.Module):
    def __init__(self, classes: int = 6, samples: int = 10) -> None:
        super().__init__()
        self.classes = classes
        self.smoothing = 0.1
        self.stem = nn.Linear(8, 12)
        self.norm = nn.BatchNorm1d(12)
        self.fc = nn.Linear(12, classes)
        self.register_buffer("memory", torch.full((samples, classes), 1.0 / classes))
        self.register_buffer("prior", torch.full((classes,), 1.0 / classes))

    def smooth(self, labels: Tensor) -> Tensor:
        off = self.smoothing / self.classes
        target = torch.full((labels.size(0), self.classes), off, device=labels.device)
        return target.scatter_(1, labels.unsqueeze(1), 1.0 - self.smoothing + off)

    def forward(self, x: Tensor, labels: Tensor, index: Tensor, lam: Tensor, order: Tensor) -> Tensor:
        mixed = x.mul(lam).add_(x[order].mul(1.0 - lam))
        target = self.smooth(labels)
        target = target * lam + target[order] * (1 - lam)
        h = F.relu(self.norm(self.stem(mixed)), inplace=True)
        h = F.dropout(h, 0.2, self.training)
        logits = self.fc(h)
        log_p = F.log_softmax(logits, dim=-1)
        p = log_p.exp()
        ce = -(target * log_p).sum(dim=-1)
        rce = -(p * torch.log(target.clamp(min=1e-4))).sum(dim=-1)
        pt = (target * p).sum(dim=-1)
        gce = (1.0 - pt.pow(0.7)) / 0.7
        poly = ce + 1.5 * (1.0 - pt)
        with torch.no_grad():
            soft = p.detach().clamp(1e-4, 1.0 - 1e-4)
            soft /= soft.sum(dim=1, keepdim=True)
            memory = 0.7 * self.memory[index] + 0.3 * soft
        elr = (1.0 - (memory * p).sum(dim=1)).log()
        average = p.mean(0)
        penalty = (self.prior * (self.prior / average).log()).sum()
        loss = 0.5 * poly + 0.1 * rce + gce
        loss += 3.0 * elr
        return loss.mean() + penalty


model = RobustLoss()
inputs = (
    torch.randn(5, 8),
    torch.tensor([0, 3, 2, 5, 1]),
    torch.tensor([1, 4, 7, 9, 2]),
    torch.rand(5, 1),
    torch.tensor([2, 0, 1, 4, 3]),
)
