"""DETR's and YOLO's post-processing: boxes scaled in place, clipped columns, classes masked."""

import torch
import torch.nn.functional as F
from torch import Tensor


def cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    out = torch.empty_like(boxes)
    half = boxes[..., 2:] / 2
    out[..., 0] = boxes[..., 0] - half[..., 0]
    out[..., 1] = boxes[..., 1] - half[..., 1]
    out[..., 2] = boxes[..., 0] + half[..., 0]
    out[..., 3] = boxes[..., 1] + half[..., 1]
    return out


def scale_boxes(
    boxes: Tensor, gain: float, pad_x: float, pad_y: float, width: float, height: float
) -> Tensor:
    boxes[..., 0] -= pad_x
    boxes[..., 1] -= pad_y
    boxes[..., 2] -= pad_x
    boxes[..., 3] -= pad_y
    boxes[..., :4] /= gain
    boxes[..., 0::2].clamp_(0, width)
    boxes[..., 1::2].clamp_(0, height)
    return boxes


def box_area(boxes: Tensor) -> Tensor:
    wh = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return wh[..., 0] * wh[..., 1]


def pairwise_diou(a: Tensor, b: Tensor) -> Tensor:
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp_(min=0)
    inter = wh[..., 0] * wh[..., 1]
    union = box_area(a)[:, None] + box_area(b)[None] - inter
    iou = inter / (union + 1e-7)
    wide = (
        (torch.max(a[:, None, 2:], b[None, :, 2:]) - torch.min(a[:, None, :2], b[None, :, :2]))
        .pow_(2)
        .sum(-1)
    )
    centre = ((a[:, None, :2] + a[:, None, 2:]) - (b[None, :, :2] + b[None, :, 2:])) / 2
    distance = centre.pow_(2).sum(-1)
    iou -= distance / (wide + 1e-7)
    return iou


def model(logits: Tensor, boxes: Tensor, allowed: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    prob = F.softmax(logits, -1)
    scores, labels = prob[..., :-1].max(-1)
    scores = scores * allowed[labels]
    xyxy = cxcywh_to_xyxy(boxes.sigmoid())
    scaled = xyxy * size
    scaled = scale_boxes(scaled, 0.5, 4.0, 0.0, 60.0, 48.0)
    overlap = pairwise_diou(scaled, scaled)
    overlap = overlap.triu(1)
    decay = torch.exp(-(overlap.clamp(min=0).pow(2)) / 0.5)
    decay = decay.min(0)[0]
    kept = scores.clone()
    kept *= decay
    kept[kept < 0.05] = 0.0
    return scaled, kept, labels


inputs = (
    torch.randn(6, 5),
    torch.randn(6, 4),
    torch.tensor([1.0, 0.0, 1.0, 1.0]),
    torch.tensor([64.0, 48.0, 64.0, 48.0]),
)
