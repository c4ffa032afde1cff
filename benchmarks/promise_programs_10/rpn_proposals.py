"""torchvision's region proposal network: head, decoded anchors, clipped and small boxes."""

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RPNHead(nn.Module):
    def __init__(self, channels: int, anchors: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(inplace=True))
        self.cls_logits = nn.Conv2d(channels, anchors, 1)
        self.bbox_pred = nn.Conv2d(channels, anchors * 4, 1)

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        logits: list[Tensor] = []
        regression: list[Tensor] = []
        for feature in x:
            t = self.conv(feature)
            logits.append(self.cls_logits(t))
            regression.append(self.bbox_pred(t))
        return logits, regression


def flatten_layer(layer: Tensor, anchors: int, last: int) -> Tensor:
    n, _, h, w = layer.shape
    layer = layer.view(n, -1, last, h, w).permute(0, 3, 4, 1, 2)
    return layer.reshape(n, -1, last)


def decode(deltas: Tensor, anchors: Tensor) -> Tensor:
    widths = anchors[:, 2] - anchors[:, 0]
    heights = anchors[:, 3] - anchors[:, 1]
    ctr_x = anchors[:, 0] + 0.5 * widths
    ctr_y = anchors[:, 1] + 0.5 * heights
    dx = deltas[:, 0::4] / 1.0
    dy = deltas[:, 1::4] / 1.0
    dw = torch.clamp(deltas[:, 2::4] / 1.0, max=math.log(1000.0 / 16))
    dh = torch.clamp(deltas[:, 3::4] / 1.0, max=math.log(1000.0 / 16))
    pred_ctr_x = dx * widths[:, None] + ctr_x[:, None]
    pred_ctr_y = dy * heights[:, None] + ctr_y[:, None]
    pred_w = torch.exp(dw) * widths[:, None]
    pred_h = torch.exp(dh) * heights[:, None]
    half_w = torch.tensor(0.5, dtype=pred_ctr_x.dtype, device=pred_w.device) * pred_w
    half_h = torch.tensor(0.5, dtype=pred_ctr_y.dtype, device=pred_h.device) * pred_h
    boxes = torch.stack(
        (pred_ctr_x - half_w, pred_ctr_y - half_h, pred_ctr_x + half_w, pred_ctr_y + half_h), dim=2
    )
    return boxes.flatten(1)


def clip_boxes(boxes: Tensor, height: float, width: float) -> Tensor:
    xs = boxes[..., 0::2].clamp(min=0, max=width)
    ys = boxes[..., 1::2].clamp(min=0, max=height)
    return torch.stack((xs, ys), dim=boxes.dim()).reshape(boxes.shape)


class RegionProposalNetwork(nn.Module):
    def __init__(self, channels: int = 4, anchors: int = 2, min_size: float = 1e-3) -> None:
        super().__init__()
        self.head = RPNHead(channels, anchors)
        self.anchors_per_place = anchors
        self.min_size = min_size

    def compute_loss(
        self, objectness: Tensor, deltas: Tensor, labels: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        positive = labels >= 1.0
        sampled = labels >= 0.0
        difference = torch.abs(deltas - targets)
        box_loss = torch.where(difference < 1 / 9, 0.5 * difference**2 / (1 / 9), difference - 0.5 / 9).sum(
            -1
        )
        box_loss = (box_loss * positive.float()).sum() / sampled.sum().clamp(min=1)
        objectness_loss = F.binary_cross_entropy_with_logits(
            objectness, labels.clamp(min=0), reduction="none"
        )
        objectness_loss *= sampled
        return objectness_loss.sum() / sampled.sum().clamp(min=1), box_loss

    def forward(
        self,
        features: list[Tensor],
        anchors: Tensor,
        labels: Optional[Tensor] = None,
        targets: Optional[Tensor] = None,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        objectness, deltas = self.head(features)
        flat_o: list[Tensor] = []
        flat_d: list[Tensor] = []
        for o, d in zip(objectness, deltas):
            flat_o.append(flatten_layer(o, self.anchors_per_place, 1))
            flat_d.append(flatten_layer(d, self.anchors_per_place, 4))
        scores = torch.cat(flat_o, dim=1).flatten(0, -2)
        regression = torch.cat(flat_d, dim=1).reshape(-1, 4)
        boxes = decode(regression.detach(), anchors)
        boxes = clip_boxes(boxes, 32.0, 32.0)
        ws, hs = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        keep = (ws >= self.min_size) & (hs >= self.min_size)
        probability = torch.sigmoid(scores.detach().flatten())
        probability[~keep] = 0.0
        losses: dict[str, Tensor] = {}
        if self.training and labels is not None and targets is not None:
            a, b = self.compute_loss(scores.flatten(), regression, labels, targets)
            losses["loss_objectness"] = a
            losses["loss_rpn_box_reg"] = b
        return boxes, probability, losses


model = RegionProposalNetwork()
corners = torch.rand(2 * (9 + 4), 2) * 20.0
inputs = (
    [torch.randn(1, 4, 3, 3), torch.randn(1, 4, 2, 2)],
    torch.cat((corners, corners + 6.0), dim=1),
    torch.tensor([1.0, 0.0, -1.0, 0.0] * 6 + [0.0, 1.0]),
    torch.randn(26, 4) * 0.3,
)
