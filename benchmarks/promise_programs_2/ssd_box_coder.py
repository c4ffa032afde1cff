"""Boxes of an SSD or a region proposal network decoded, clipped and scored."""

import math

import torch
from torch import Tensor


def model(rel_codes: Tensor, boxes: Tensor, logits: Tensor) -> Tensor:
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

    x1 = (pred_ctr_x - c_to_c_w).clamp(0, 64)
    y1 = (pred_ctr_y - c_to_c_h).clamp(0, 64)
    x2 = (pred_ctr_x + c_to_c_w).clamp(0, 64)
    y2 = (pred_ctr_y + c_to_c_h).clamp(0, 64)
    decoded = torch.stack((x1, y1, x2, y2), dim=2).flatten(1)
    scores = torch.softmax(logits, -1)[:, 1:]
    keep = scores.max(dim=-1, keepdim=True)[0] > 0.05
    return decoded * keep.to(decoded.dtype)


torch.manual_seed(3)
corner = torch.rand(9, 2) * 40
inputs = (torch.randn(9, 4), torch.cat([corner, corner + 4 + torch.rand(9, 2) * 16], 1), torch.randn(9, 5))
