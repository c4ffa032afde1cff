"""Outputs of YOLOX decoded to corners, scored and filtered as its demo does before suppression."""

import torch
from torch import Tensor


def decode(outputs: Tensor, grids: Tensor, strides: Tensor) -> Tensor:
    outputs = outputs.clone()
    outputs[..., :2] = (outputs[..., :2] + grids) * strides
    outputs[..., 2:4] = torch.exp(outputs[..., 2:4]) * strides
    return outputs


def model(
    outputs: Tensor, grids: Tensor, strides: Tensor, scale: float = 0.5
) -> tuple[Tensor, Tensor, Tensor]:
    outputs = outputs.clone()
    outputs[..., 4:] = outputs[..., 4:].sigmoid()
    outputs = decode(outputs, grids, strides)
    box_corner = torch.zeros_like(outputs)
    box_corner[:, :, 0] = outputs[:, :, 0] - outputs[:, :, 2] / 2
    box_corner[:, :, 1] = outputs[:, :, 1] - outputs[:, :, 3] / 2
    box_corner[:, :, 2] = outputs[:, :, 0] + outputs[:, :, 2] / 2
    box_corner[:, :, 3] = outputs[:, :, 1] + outputs[:, :, 3] / 2
    boxes = box_corner[:, :, :4]
    boxes /= scale
    class_conf, class_pred = torch.max(outputs[:, :, 5:], 2, keepdim=True)
    score = outputs[:, :, 4:5] * class_conf
    keep = (score >= 0.25).float()
    score = score * keep
    return (
        boxes,
        score.squeeze(-1),
        class_pred.squeeze(-1).float() * keep.squeeze(-1) - (1 - keep.squeeze(-1)),
    )


inputs = (torch.randn(2, 10, 9), torch.rand(1, 10, 2) * 8, torch.full((1, 10, 1), 8.0))
