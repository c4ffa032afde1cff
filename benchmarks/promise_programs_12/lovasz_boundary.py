"""Segmentation losses: Lovasz hinge and softmax, online hard examples, boundary weights."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def lovasz_grad(gt_sorted: Tensor) -> Tensor:
    p = gt_sorted.numel()
    gts = gt_sorted.sum()
    intersection = gts - gt_sorted.float().cumsum(0)
    union = gts + (1 - gt_sorted).float().cumsum(0)
    jaccard = 1.0 - intersection / union
    if p > 1:
        jaccard[1:p] = jaccard[1:p] - jaccard[0:-1]
    return jaccard


def lovasz_hinge_flat(logits: Tensor, labels: Tensor) -> Tensor:
    signs = 2.0 * labels.float() - 1.0
    errors = 1.0 - logits * signs
    errors_sorted, perm = torch.sort(errors, dim=0, descending=True)
    grad = lovasz_grad(labels.float()[perm])
    return torch.dot(F.relu(errors_sorted), grad)


def lovasz_softmax(probas: Tensor, labels: Tensor, ignore: int) -> Tensor:
    c = probas.size(1)
    flat = probas.permute(0, 2, 3, 1).reshape(-1, c)
    labels = labels.view(-1)
    valid = labels != ignore
    flat, labels = flat[valid], labels[valid]
    losses: list[Tensor] = []
    for i in range(c):
        fg = (labels == i).float()
        errors = (fg - flat[:, i]).abs()
        errors_sorted, perm = torch.sort(errors, 0, descending=True)
        losses.append(torch.dot(errors_sorted, lovasz_grad(fg[perm])))
    return torch.stack(losses).mean()


def ohem(logits: Tensor, target: Tensor, thresh: float, ignore: int) -> Tensor:
    loss = F.cross_entropy(logits, target, ignore_index=ignore, reduction="none").view(-1)
    keep = loss > thresh
    if int(keep.sum()) < 8:
        return loss.topk(8)[0].mean()
    return loss[keep].mean()


class SegmentationLoss(nn.Module):
    def __init__(self, classes: int = 3, ignore: int = 255) -> None:
        super().__init__()
        self.ignore = ignore
        self.head = nn.Conv2d(4, classes, 1)
        kernel = torch.tensor([[-1.0, -1.0, -1.0], [-1.0, 8.0, -1.0], [-1.0, -1.0, -1.0]])
        self.register_buffer("laplacian", kernel.view(1, 1, 3, 3))
        self.log_vars = nn.Parameter(torch.zeros(3))

    def boundary(self, target: Tensor) -> Tensor:
        edges = F.conv2d(target.unsqueeze(1).float(), self.laplacian, padding=1)
        edges = edges.clamp_(min=0)
        edges[edges > 0.1] = 1
        edges[edges <= 0.1] = 0
        return edges

    def forward(self, x: Tensor, target: Tensor, weight: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
        logits = self.head(x)
        probas = logits.softmax(1)
        edges = self.boundary(target)
        hard = ohem(logits, target, 0.7, self.ignore)
        jaccard = lovasz_softmax(probas, target, self.ignore)
        edge_logit = logits.amax(1) - logits.mean(1)
        hinge = lovasz_hinge_flat(edge_logit.reshape(-1), edges.reshape(-1))
        bce = F.binary_cross_entropy_with_logits(edge_logit.unsqueeze(1), edges, reduction="none")
        bce *= 1.0 + edges * 4.0
        if weight is not None:
            bce *= weight
        terms = torch.stack([hard + jaccard, hinge, bce.mean()])
        total = (terms * torch.exp(-self.log_vars) + self.log_vars).sum()
        return total, probas.argmax(1)


model = SegmentationLoss()
target = torch.randint(0, 3, (2, 6, 6))
target[0, 0, 0] = 255
inputs = (torch.randn(2, 4, 6, 6), target, torch.rand(2, 1, 6, 6))
