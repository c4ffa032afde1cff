"""PointPillars: augmented points, masked pillars, scatter to a canvas, anchors, direction classes."""

import math
from typing import Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PillarFeatures(nn.Module):
    def __init__(self, channels: int = 8, size: float = 0.5) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(9, channels, bias=False), nn.BatchNorm1d(channels, eps=1e-3)
        self.size, self.offset = size, size / 2 - 2.0

    def forward(self, points: Tensor, counts: Tensor, coords: Tensor) -> Tensor:
        mean = points[:, :, :3].sum(dim=1, keepdim=True) / counts.type_as(points).view(-1, 1, 1)
        cluster = points[:, :, :3] - mean
        centre = torch.zeros_like(points[:, :, :2])
        centre[:, :, 0] = points[:, :, 0] - (
            coords[:, 1].to(points.dtype).unsqueeze(1) * self.size + self.offset
        )
        centre[:, :, 1] = points[:, :, 1] - (
            coords[:, 0].to(points.dtype).unsqueeze(1) * self.size + self.offset
        )
        features = torch.cat([points, cluster, centre], dim=-1)
        index = torch.arange(points.size(1), device=points.device)
        mask = counts.unsqueeze(1) > index.unsqueeze(0)
        features *= mask.unsqueeze(-1).type_as(features)
        x = self.linear(features)
        x = self.norm(x.permute(0, 2, 1).contiguous()).permute(0, 2, 1)
        x = F.relu(x, inplace=True)
        return x.max(dim=1)[0]


class Head(nn.Module):
    def __init__(self, channels: int = 8, anchors: int = 2) -> None:
        super().__init__()
        self.cls, self.box = nn.Conv2d(channels, anchors, 1), nn.Conv2d(channels, anchors * 7, 1)
        self.direction = nn.Conv2d(channels, anchors * 2, 1)
        nn.init.constant_(self.cls.bias, -math.log(99.0))
        self.anchors = anchors

    def decode(self, box: Tensor, anchor: Tensor, direction: Tensor) -> Tensor:
        diagonal = torch.sqrt(anchor[:, 3] ** 2 + anchor[:, 4] ** 2)
        out = torch.zeros_like(box)
        out[..., 0] = box[..., 0] * diagonal + anchor[:, 0]
        out[..., 1] = box[..., 1] * diagonal + anchor[:, 1]
        out[..., 2] = box[..., 2] * anchor[:, 5] + anchor[:, 2]
        out[..., 3:6] = torch.exp(box[..., 3:6].clamp(max=4.0)) * anchor[:, 3:6]
        angle = box[..., 6] + anchor[:, 6]
        angle = angle - torch.floor(angle / math.pi) * math.pi
        out[..., 6] = angle + math.pi * direction.argmax(-1).to(angle.dtype)
        return out

    def forward(self, x: Tensor, anchor: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        b = x.size(0)
        cls = self.cls(x).permute(0, 2, 3, 1).reshape(b, -1)
        box = self.box(x).permute(0, 2, 3, 1).reshape(b, -1, 7)
        direction = self.direction(x).permute(0, 2, 3, 1).reshape(b, -1, 2)
        return cls, box, direction, self.decode(box, anchor, direction)


class PointPillars(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pillars, self.head = PillarFeatures(), Head()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.register_buffer("anchor", torch.rand(32, 7) + 0.5)

    def forward(
        self, points: Tensor, counts: Tensor, coords: Tensor, target: Optional[Tensor]
    ) -> Dict[str, Tensor]:
        features = self.pillars(points, counts, coords)
        canvas = torch.zeros(features.size(1), 16, dtype=features.dtype, device=features.device)
        canvas[:, coords[:, 0] * 4 + coords[:, 1]] = features.t()
        x = canvas.view(1, -1, 4, 4)
        x = x + F.relu_(self.norm(self.conv(x)))
        cls, box, _direction, decoded = self.head(x, self.anchor)
        score = torch.sigmoid(cls)
        result = {"score": score, "decoded": decoded}
        if target is not None:
            labels = (target[..., 3] > 0.7).to(cls.dtype)
            alpha = labels * 0.25 + (1.0 - labels) * 0.75
            pt = labels * (1.0 - score) + (1.0 - labels) * score
            bce = torch.clamp(cls, min=0) - cls * labels + torch.log1p(torch.exp(-torch.abs(cls)))
            focal = (alpha * pt.pow(2.0) * bce).sum()
            sine = torch.sin(box[..., 6:] - target[..., 6:])
            diff = torch.cat([box[..., :6] - target[..., :6], sine], dim=-1).abs()
            smooth = torch.where(diff < 1.0 / 9, 4.5 * diff * diff, diff - 0.5 / 9)
            smooth *= labels.unsqueeze(-1)
            result["loss"] = (focal + 2.0 * smooth.sum()) / labels.sum().clamp_(min=1.0)
        return result


model = PointPillars()
inputs = (
    torch.randn(6, 5, 4),
    torch.tensor([5, 3, 1, 2, 4, 5]),
    torch.tensor([[0, 1], [1, 1], [3, 2], [2, 0], [0, 3], [3, 3]]),
    torch.rand(1, 32, 7),
)
