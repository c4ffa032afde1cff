"""SOLO: coordinates as channels, category suppression, dice, matrix NMS, mask scores, an averaged teacher."""

from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def with_coordinates(x: Tensor) -> Tensor:
    h, w = x.shape[-2:]
    ys = torch.linspace(-1, 1, h, device=x.device, dtype=x.dtype)
    xs = torch.linspace(-1, 1, w, device=x.device, dtype=x.dtype)
    y = ys.view(1, 1, h, 1).expand(x.size(0), 1, h, w)
    return torch.cat([x, xs.expand_as(y), y], dim=1)


def points_nms(heat: Tensor) -> Tensor:
    peak = F.max_pool2d(heat, 2, stride=1, padding=1)
    keep = (peak[:, :, :-1, :-1] == heat).float()
    return heat * keep


def matrix_nms(masks: Tensor, labels: Tensor, scores: Tensor, sigma: float = 2.0) -> Tensor:
    n = labels.numel()
    flat = masks.reshape(n, -1).float()
    areas = flat.sum(1)
    inter = flat @ flat.t()
    union = areas.expand(n, n)
    iou = (inter / (union + union.t() - inter).clamp(min=1e-6)).triu(diagonal=1)
    same = (labels.expand(n, n) == labels.expand(n, n).t()).float().triu(diagonal=1)
    iou *= same
    compensate = iou.max(0)[0].expand(n, n).t()
    decay = torch.exp(-sigma * iou**2) / torch.exp(-sigma * compensate**2)
    return scores * decay.min(0)[0]


def dice(pred: Tensor, target: Tensor) -> Tensor:
    pred, target = pred.flatten(1), target.flatten(1).to(pred.dtype)
    a = (pred * target).sum(1)
    b = pred.square().sum(1) + 0.001
    c = target.square().sum(1) + 0.001
    return 1 - 2 * a / (b + c)


class Solo(nn.Module):
    def __init__(self, channels: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(5, channels, 3, padding=1, bias=False), nn.GroupNorm(2, channels), nn.ReLU(inplace=True)
        )
        self.category, self.kernel = nn.Conv2d(channels, classes, 3, padding=1), nn.Conv2d(channels, 6, 1)
        self.level_scales = nn.Parameter(torch.ones(2))

    def level(self, x: Tensor, scale: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        h = self.stem(with_coordinates(x))
        heat = self.category(h) * scale
        kernels = self.kernel(F.adaptive_avg_pool2d(h, [2, 2])).flatten(2).squeeze(0).t()
        return h, heat, kernels

    def forward(self, x: Tensor, target: Tensor, exist: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        sizes: List[Tensor] = [x, F.avg_pool2d(x, 2)]
        total = torch.zeros(1, device=x.device)
        masks: List[Tensor] = []
        scores: List[Tensor] = []
        labels: List[Tensor] = []
        for i, part in enumerate(sizes):
            h, heat, kernels = self.level(part, self.level_scales[i])
            heat = heat.sigmoid_()
            if not self.training:
                heat = points_nms(heat)
            best, index = heat.flatten(2).max(2)
            logits = torch.einsum("nc,chw->nhw", kernels, h[0])
            logits = F.interpolate(logits.unsqueeze(0), scale_factor=2.0 if i > 0 else 1.0)[0]
            soft = torch.sigmoid(logits)
            loss = dice(soft, target)
            loss[~exist] = 0.0
            total += loss.sum() / exist.sum().clamp(min=1)
            hard = soft > 0.5
            quality = (soft * hard).sum([1, 2]) / hard.sum([1, 2]).clamp(min=1)
            score = quality * best[0].max()
            masks.append(hard)
            scores.append(score)
            labels.append(index[0][:1].expand(4))
        all_scores = torch.cat(scores)
        order = torch.argsort(all_scores.detach(), descending=True)
        all_masks, all_labels = torch.cat(masks)[order], torch.cat(labels)[order]
        suppressed = matrix_nms(all_masks, all_labels, all_scores[order])
        suppressed = suppressed.masked_fill(suppressed < 0.05, 0.0)
        return suppressed, all_masks, total


model = Solo()
inputs = (torch.randn(1, 3, 8, 8), torch.rand(4, 8, 8) > 0.6, torch.tensor([True, True, False, True]))
