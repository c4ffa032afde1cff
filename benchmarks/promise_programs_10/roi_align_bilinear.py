"""torchvision's RoI Align in plain operators: the sampling grid, clamped corners, bilinear weights."""

import torch
from torch import Tensor


def corner(feature: Tensor, batch: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    channels = torch.arange(feature.size(1), device=feature.device)
    return feature[
        batch[:, None, None, None],
        channels[None, :, None, None],
        rows.long()[:, None, :, None],
        columns.long()[:, None, None, :],
    ]


def outer_weight(y: Tensor, x: Tensor) -> Tensor:
    return y[:, None, :, None] * x[:, None, None, :]


def bilinear(feature: Tensor, batch: Tensor, y: Tensor, x: Tensor) -> Tensor:
    height, width = feature.size(2), feature.size(3)
    outside_y = (y < -1.0) | (y > height)
    outside_x = (x < -1.0) | (x > width)
    y = y.clamp(min=0)
    x = x.clamp(min=0)
    y_low = y.int()
    x_low = x.int()
    y_high = torch.where(y_low >= height - 1, height - 1, y_low + 1)
    y_low = torch.where(y_low >= height - 1, height - 1, y_low)
    y = torch.where(y_low >= height - 1, y_low.to(feature.dtype), y)
    x_high = torch.where(x_low >= width - 1, width - 1, x_low + 1)
    x_low = torch.where(x_low >= width - 1, width - 1, x_low)
    x = torch.where(x_low >= width - 1, x_low.to(feature.dtype), x)
    ly = y - y_low
    lx = x - x_low
    hy = 1.0 - ly
    hx = 1.0 - lx
    value = outer_weight(hy, hx) * corner(feature, batch, y_low, x_low)
    value += outer_weight(hy, lx) * corner(feature, batch, y_low, x_high)
    value += outer_weight(ly, hx) * corner(feature, batch, y_high, x_low)
    value += outer_weight(ly, lx) * corner(feature, batch, y_high, x_high)
    value[outside_y[:, None, :, None].expand_as(value)] = 0.0
    value.masked_fill_(outside_x[:, None, None, :], 0.0)
    return value


def model(
    feature: Tensor, rois: Tensor, pooled: int = 2, ratio: int = 2, scale: float = 0.25, aligned: bool = True
) -> Tensor:
    batch = rois[:, 0].long()
    offset = 0.5 if aligned else 0.0
    start_w = rois[:, 1] * scale - offset
    start_h = rois[:, 2] * scale - offset
    end_w = rois[:, 3] * scale - offset
    end_h = rois[:, 4] * scale - offset
    width = end_w - start_w
    height = end_h - start_h
    if not aligned:
        width = torch.clamp(width, min=1.0)
        height = torch.clamp(height, min=1.0)
    bin_h = height / pooled
    bin_w = width / pooled
    steps = (torch.arange(pooled * ratio, device=rois.device) + 0.5) / ratio
    y = start_h[:, None] + steps[None, :] * bin_h[:, None]
    x = start_w[:, None] + steps[None, :] * bin_w[:, None]
    value = bilinear(feature, batch, y, x)
    n, c = rois.size(0), feature.size(1)
    out = value.view(n, c, pooled, ratio, pooled, ratio).sum(dim=[3, 5])
    out /= max(ratio * ratio, 1)
    return out


inputs = (
    torch.randn(2, 3, 6, 6, requires_grad=True),
    torch.tensor([[0.0, 2.0, 1.0, 14.0, 17.0], [1.0, 0.0, 0.0, 23.0, 9.0], [1.0, 8.0, 6.0, 30.0, 28.0]]),
)
