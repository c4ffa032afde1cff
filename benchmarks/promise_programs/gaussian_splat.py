"""Points splatted on a small image as Gaussians."""

import torch
import torch.nn.functional as F
from torch import Tensor


def model(centre: Tensor, width: Tensor, colour: Tensor, grid: Tensor) -> Tensor:
    offset = grid.unsqueeze(1) - centre.unsqueeze(0)
    distance = offset.square().sum(-1)
    sigma = F.softplus(width).clamp_min(0.05)
    alpha = torch.exp(-0.5 * distance / sigma.square()).clamp(max=0.99)
    keep = torch.cumprod(1.0 - alpha, 1)
    before = torch.cat([torch.ones_like(keep[:, :1]), keep[:, :-1]], 1)
    weight = alpha * before
    image = weight @ torch.sigmoid(colour)
    return image.sub_(0.5).mul_(2.0)


inputs = (
    torch.rand(4, 2, requires_grad=True),
    torch.zeros(4, requires_grad=True),
    torch.randn(4, 3, requires_grad=True),
    torch.rand(16, 2),
)
