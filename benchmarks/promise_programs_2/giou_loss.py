"""The generalised IoU loss of boxes."""

import torch
from torch import Tensor


def model(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes1.unbind(dim=-1)
    x1g, y1g, x2g, y2g = boxes2.unbind(dim=-1)
    xkis1 = torch.max(x1, x1g)
    ykis1 = torch.max(y1, y1g)
    xkis2 = torch.min(x2, x2g)
    ykis2 = torch.min(y2, y2g)
    intsctk = torch.zeros_like(x1)
    mask = (ykis2 > ykis1) & (xkis2 > xkis1)
    intsctk[mask] = (xkis2[mask] - xkis1[mask]) * (ykis2[mask] - ykis1[mask])
    unionk = (x2 - x1) * (y2 - y1) + (x2g - x1g) * (y2g - y1g) - intsctk
    iouk = intsctk / (unionk + 1e-7)
    xc1 = torch.min(x1, x1g)
    yc1 = torch.min(y1, y1g)
    xc2 = torch.max(x2, x2g)
    yc2 = torch.max(y2, y2g)
    area_c = (xc2 - xc1) * (yc2 - yc1)
    miouk = iouk - ((area_c - unionk) / (area_c + 1e-7))
    return 1 - miouk


torch.manual_seed(4)
low = torch.rand(12, 2)
other = torch.rand(12, 2)
inputs = (
    torch.cat([low, low + 0.1 + torch.rand(12, 2)], 1).requires_grad_(),
    torch.cat([other, other + 0.1 + torch.rand(12, 2)], 1),
)
