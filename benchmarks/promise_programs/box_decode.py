"""Boxes decoded from the deltas of a detection head, in place on slices."""

import torch
from torch import Tensor, nn


class Decode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)

    def forward(self, features: Tensor, anchors: Tensor) -> Tensor:
        deltas = self.head(features)
        centre = (anchors[:, :2] + anchors[:, 2:]) * 0.5
        size = anchors[:, 2:] - anchors[:, :2]
        boxes = torch.zeros_like(deltas)
        boxes[..., :2] += deltas[..., :2] * size + centre
        boxes[..., 2:] += torch.exp(deltas[..., 2:].clamp(max=4.0)) * size
        half = boxes[..., 2:] * 0.5
        low = boxes[..., :2] - half
        return torch.cat([low.clamp_min(0.0), boxes[..., :2] + half], -1)


model = Decode()
corner = torch.rand(5, 2)
inputs = (torch.randn(5, 6), torch.cat([corner, corner + 1.0], 1))
