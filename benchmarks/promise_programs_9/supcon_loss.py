"""The supervised contrastive loss of two views, normalised in place, hard negatives weighted."""

import torch
from torch import Tensor, nn


class SupCon(nn.Module):
    def __init__(self, dim: int = 8, temperature: float = 0.1, base: float = 0.07, beta: float = 0.5) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(inplace=True), nn.Linear(dim, 6))
        self.temperature = temperature
        self.base = base
        self.beta = beta

    def forward(self, view1: Tensor, view2: Tensor, labels: Tensor) -> Tensor:
        z1 = self.head(view1)
        z2 = self.head(view2)
        z1 /= z1.detach().norm(p=2, dim=1, keepdim=True).clamp(min=1e-12)
        z2 /= z2.detach().norm(p=2, dim=1, keepdim=True).clamp(min=1e-12)
        features = torch.cat([z1, z2], dim=0)
        labels = labels.contiguous().view(-1, 1).repeat(2, 1)
        mask = torch.eq(labels, labels.t()).float()
        logits = torch.div(torch.matmul(features, features.t()), self.temperature)
        logits_max, _ = torch.max(logits, dim=1, keepdim=True)
        logits = logits - logits_max.detach()
        n = logits.size(0)
        logits_mask = torch.ones_like(mask)
        logits_mask.fill_diagonal_(0.0)
        mask *= logits_mask
        negatives = (1.0 - mask) * logits_mask
        weight = (self.beta * logits.detach()).exp() * negatives
        weight = weight * negatives.sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1e-6)
        exp_logits = torch.exp(logits) * (mask + weight)
        log_prob = logits - torch.log(exp_logits.sum(1, keepdim=True) + 1e-8)
        pairs = mask.sum(1)
        pairs = torch.where(pairs < 1e-6, torch.ones_like(pairs), pairs)
        mean_log_prob = (mask * log_prob).sum(1) / pairs
        loss = -(self.temperature / self.base) * mean_log_prob
        return loss.sum() / n


model = SupCon()
inputs = (torch.randn(6, 8), torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 3]))
