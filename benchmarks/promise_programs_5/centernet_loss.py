"""The penalty-reduced focal loss of CenterNet on a heat map, and an L1 loss at the centres."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(heat: Tensor, gt: Tensor, size: Tensor, target: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    pred = torch.clamp(heat.sigmoid(), min=1e-4, max=1 - 1e-4)
    pos = gt.eq(1).float()
    neg = gt.lt(1).float()
    neg_weights = torch.pow(1 - gt, 4)
    pos_loss = torch.log(pred) * torch.pow(1 - pred, 2) * pos
    neg_loss = torch.log(1 - pred) * torch.pow(pred, 2) * neg_weights * neg
    num_pos = pos.sum()
    loss = -(pos_loss.sum() + neg_loss.sum()) / num_pos.clamp(min=1)
    flat = size.flatten(2).transpose(1, 2)
    picked = flat.gather(1, index.unsqueeze(-1).expand(-1, -1, 2))
    m = mask.unsqueeze(2).expand_as(picked).float()
    wh = F.l1_loss(picked * m, target * m, reduction="sum") / (m.sum() + 1e-4)
    return loss + 0.1 * wh


gt = torch.rand(2, 3, 8, 8) * 0.9
gt[:, :, 2, 3] = 1.0
inputs = (
    torch.randn(2, 3, 8, 8, requires_grad=True),
    gt,
    torch.randn(2, 2, 8, 8, requires_grad=True),
    torch.randn(2, 5, 2),
    torch.randint(0, 64, (2, 5)),
    torch.tensor([[1, 1, 0, 0, 1], [1, 0, 0, 0, 0]]),
)
