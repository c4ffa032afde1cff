"""The cost matrix of DETR: focal class cost, L1 and generalised IoU of boxes."""

import torch
from torch import Tensor


def corners(x: Tensor) -> Tensor:
    x_c, y_c, w, h = x.unbind(-1)
    b = [(x_c - 0.5 * w), (y_c - 0.5 * h), (x_c + 0.5 * w), (y_c + 0.5 * h)]
    return torch.stack(b, dim=-1)


def generalized_iou(a: Tensor, b: Tensor) -> Tensor:
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    lt = torch.max(a[:, None, :2], b[:, :2])
    rb = torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area_a[:, None] + area_b - inter
    iou = inter / union
    lt = torch.min(a[:, None, :2], b[:, :2])
    rb = torch.max(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    area = wh[:, :, 0] * wh[:, :, 1]
    return iou - (area - union) / area


def model(logits: Tensor, boxes: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    prob = logits.sigmoid()
    neg = 0.75 * (prob**2.0) * (-(1 - prob + 1e-8).log())
    pos = 0.25 * ((1 - prob) ** 2.0) * (-(prob + 1e-8).log())
    cost_class = pos[:, labels] - neg[:, labels]
    cost_box = torch.cdist(boxes, targets, p=1.0)
    cost_giou = -generalized_iou(corners(boxes), corners(targets))
    cost = 5.0 * cost_box + 2.0 * cost_class + 2.0 * cost_giou
    return cost.nan_to_num(0.0)


torch.manual_seed(5)
inputs = (
    torch.randn(10, 4, requires_grad=True),
    torch.rand(10, 4) * 0.4 + 0.2,
    torch.randint(0, 4, (6,)),
    torch.rand(6, 4) * 0.4 + 0.2,
)
