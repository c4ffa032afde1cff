"""The head of YOLOv8: distributions to distances, distances to boxes, with strides."""

import torch
from torch import Tensor, nn


class DFLHead(nn.Module):
    def __init__(self, bins: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.bins, self.classes = bins, classes
        self.conv = nn.Conv2d(4, 4 * bins + classes, 1)
        self.bn = nn.BatchNorm2d(4 * bins + classes)
        self.act = nn.SiLU(inplace=True)
        self.out = nn.Conv2d(4 * bins + classes, 4 * bins + classes, 1)
        self.register_buffer("project", torch.arange(bins, dtype=torch.float))

    def forward(self, x: Tensor) -> Tensor:
        y = self.out(self.act(self.bn(self.conv(x))))
        b, _, h, w = y.shape
        y = y.view(b, 4 * self.bins + self.classes, h * w)
        box, cls = y.split((4 * self.bins, self.classes), 1)
        dist = box.view(b, 4, self.bins, h * w).transpose(2, 1).softmax(1)
        dist = (dist * self.project.view(1, self.bins, 1, 1)).sum(1)
        sx = torch.arange(w, device=x.device, dtype=x.dtype) + 0.5
        sy = torch.arange(h, device=x.device, dtype=x.dtype) + 0.5
        gy, gx = torch.meshgrid(sy, sx, indexing="ij")
        anchors = torch.stack((gx, gy), -1).view(-1, 2).t().unsqueeze(0)
        lt, rb = dist.chunk(2, 1)
        x1y1 = anchors - lt
        x2y2 = anchors + rb
        centre = (x1y1 + x2y2) / 2
        size = x2y2 - x1y1
        return torch.cat((torch.cat((centre, size), 1) * 8.0, cls.sigmoid()), 1)


model = DFLHead()
inputs = (torch.randn(2, 4, 4, 4),)
