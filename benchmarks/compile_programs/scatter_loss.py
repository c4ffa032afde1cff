"""A loss of points and their segments: sums by scatter, a table by index_put, means gathered back."""

import torch
from torch import Tensor


def model(points: Tensor, logits: Tensor, segments: Tensor, slots: Tensor) -> Tensor:
    count = 7
    sums = torch.zeros(count, points.shape[1], device=points.device).index_add(0, segments, points)
    ones = torch.ones_like(segments, dtype=points.dtype)
    sizes = torch.zeros(count, device=points.device).scatter_add(0, segments, ones).clamp(min=1)
    centres = sums / sizes[:, None]
    pull = (points - centres[segments]).square().sum(1)
    table = torch.zeros(count, 16, device=points.device).index_put((segments, slots), pull, accumulate=True)
    chosen = logits.log_softmax(1).gather(1, segments[:, None]).squeeze(1)
    push = torch.relu(1.5 - torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist"))
    weights = torch.where(sizes > 2, 1.0, 0.5)
    return (table.amax(1) * weights).mean() - chosen.mean() + push.triu(1).mean()


torch.manual_seed(0)
inputs = (
    torch.randn(40, 5, requires_grad=True),
    torch.randn(40, 7, requires_grad=True),
    torch.randint(7, (40,)),
    torch.randint(16, (40,)),
)
