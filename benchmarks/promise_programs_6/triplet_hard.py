"""A triplet loss with the hardest pairs of a batch, a soft margin, and the centre loss."""

import torch
import torch.nn.functional as F
from torch import Tensor


def normalize(x: Tensor, axis: int = -1) -> Tensor:
    return 1.0 * x / (torch.norm(x, 2, axis, keepdim=True).expand_as(x) + 1e-12)


def euclidean_dist(x: Tensor, y: Tensor) -> Tensor:
    m, n = x.size(0), y.size(0)
    xx = torch.pow(x, 2).sum(1, keepdim=True).expand(m, n)
    yy = torch.pow(y, 2).sum(1, keepdim=True).expand(n, m).t()
    dist = xx + yy
    dist = dist - 2 * torch.matmul(x, y.t())
    return dist.clamp(min=1e-12).sqrt()


def model(feat: Tensor, labels: Tensor, centers: Tensor, logits: Tensor) -> Tensor:
    feat_n = normalize(feat)
    dist = euclidean_dist(feat_n, feat_n)
    n = dist.size(0)
    is_pos = labels.expand(n, n).eq(labels.expand(n, n).t())
    dist_ap = (dist * is_pos.float()).max(dim=1)[0]
    dist_an = (dist + 1e5 * is_pos.float()).min(dim=1)[0]
    triplet = F.softplus(dist_ap - dist_an).mean()
    distmat = euclidean_dist(feat, centers)
    classes = torch.arange(centers.size(0), device=feat.device)
    mask = labels.unsqueeze(1).eq(classes.expand(n, centers.size(0)))
    center = (distmat * mask.float()).clamp(min=1e-12, max=1e12).sum() / n
    log_probs = F.log_softmax(logits, dim=1)
    targets = torch.zeros_like(log_probs).scatter_(1, labels.unsqueeze(1), 1.0)
    targets = 0.9 * targets + 0.1 / logits.size(1)
    xent = (-targets * log_probs).mean(0).sum()
    return xent + triplet + 5e-4 * center


inputs = (
    torch.randn(6, 8, requires_grad=True),
    torch.tensor([0, 0, 1, 1, 2, 2]),
    torch.randn(3, 8, requires_grad=True),
    torch.randn(6, 3, requires_grad=True),
)
