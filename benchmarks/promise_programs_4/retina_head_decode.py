"""The head of a one-stage detector: scores, boxes decoded in place from anchors, clipped to the image."""

import torch
from torch import Tensor, nn


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(inplace=True))
        self.cls = nn.Conv2d(8, 2, 3, padding=1)
        self.box = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor]:
        h = self.tower(x)
        score = self.cls(h).sigmoid_()
        reg = self.box(h).flatten(2).transpose(1, 2) * 0.1
        size = anchors[:, 2:] - anchors[:, :2]
        centre = (anchors[:, :2] + anchors[:, 2:]) * 0.5
        xy = reg[..., :2] * size + centre
        wh = torch.exp(reg[..., 2:].clamp(max=4.0)) * size
        boxes = torch.cat([xy - wh * 0.5, xy + wh * 0.5], -1)
        boxes[..., 0] = boxes[..., 0].clamp(0.0, 64.0)
        boxes[..., 1] = boxes[..., 1].clamp(0.0, 48.0)
        boxes[..., 2:] = boxes[..., 2:].clamp(max=64.0)
        score[score < 0.05] = 0.0
        return score, boxes


model = Head()
corner = torch.rand(16, 2) * 30
inputs = (torch.randn(1, 4, 4, 4), torch.cat([corner, corner + 8.0], 1))
