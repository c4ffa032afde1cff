"""Boxes of RetinaNet from anchors and regressions, clipped to the image, as torchvision has them."""

import math

import torch
from torch import Tensor


def model(rel_codes: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
    boxes = boxes.to(rel_codes.dtype)
    widths = boxes[:, 2] - boxes[:, 0]
    heights = boxes[:, 3] - boxes[:, 1]
    ctr_x = boxes[:, 0] + 0.5 * widths
    ctr_y = boxes[:, 1] + 0.5 * heights
    dx = rel_codes[:, 0::4] / 10.0
    dy = rel_codes[:, 1::4] / 10.0
    dw = rel_codes[:, 2::4] / 5.0
    dh = rel_codes[:, 3::4] / 5.0
    dw = torch.clamp(dw, max=math.log(1000.0 / 16))
    dh = torch.clamp(dh, max=math.log(1000.0 / 16))
    pred_ctr_x = dx * widths[:, None] + ctr_x[:, None]
    pred_ctr_y = dy * heights[:, None] + ctr_y[:, None]
    pred_w = torch.exp(dw) * widths[:, None]
    pred_h = torch.exp(dh) * heights[:, None]
    c_to_c_h = torch.tensor(0.5, dtype=pred_ctr_y.dtype, device=pred_h.device) * pred_h
    c_to_c_w = torch.tensor(0.5, dtype=pred_ctr_x.dtype, device=pred_w.device) * pred_w
    pred = torch.stack(
        (pred_ctr_x - c_to_c_w, pred_ctr_y - c_to_c_h, pred_ctr_x + c_to_c_w, pred_ctr_y + c_to_c_h), dim=2
    ).flatten(1)
    boxes_x = pred[..., 0::2].clamp(min=0, max=width)
    boxes_y = pred[..., 1::2].clamp(min=0, max=height)
    return torch.stack((boxes_x, boxes_y), dim=2).reshape(pred.shape)


torch.manual_seed(3)
corner = torch.rand(16, 2) * 40
inputs = (
    (torch.randn(16, 8) * 0.3).requires_grad_(),
    torch.cat([corner, corner + 5 + torch.rand(16, 2) * 20], 1),
    64,
    64,
)
