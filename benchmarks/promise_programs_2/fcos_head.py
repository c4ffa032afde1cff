"""Distances of an FCOS head to boxes, with centerness, in place."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FCOSHead(nn.Module):
    def __init__(self, channels: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(2, channels), nn.ReLU()
        )
        self.cls_logits = nn.Conv2d(channels, classes, 3, padding=1)
        self.bbox_reg = nn.Conv2d(channels, 4, 3, padding=1)
        self.bbox_ctrness = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x: Tensor, points: Tensor) -> Tensor:
        feature = self.conv(x)
        n, _, h, w = feature.shape
        cls_logits = self.cls_logits(feature).view(n, -1, h * w).permute(0, 2, 1)
        reg = F.relu(self.bbox_reg(feature)).view(n, 4, h * w).permute(0, 2, 1)
        ctrness = self.bbox_ctrness(feature).view(n, 1, h * w).permute(0, 2, 1)
        boxes = torch.zeros_like(reg)
        boxes[..., 0] = points[:, 0] - reg[..., 0] * 8
        boxes[..., 1] = points[:, 1] - reg[..., 1] * 8
        boxes[..., 2] = points[:, 0] + reg[..., 2] * 8
        boxes[..., 3] = points[:, 1] + reg[..., 3] * 8
        scores = torch.sqrt(torch.sigmoid(cls_logits) * torch.sigmoid(ctrness))
        scores[scores < 0.3] = 0.0
        return torch.cat([boxes, scores], dim=-1)


model = FCOSHead()
inputs = (torch.randn(1, 4, 4, 4), torch.rand(16, 2) * 32)
