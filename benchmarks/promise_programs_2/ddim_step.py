"""One step of a DDIM sampler with dynamic thresholding."""

import torch
from torch import Tensor


def model(x: Tensor, noise: Tensor, alpha: Tensor, alpha_prev: Tensor) -> Tensor:
    a = alpha.view(-1, 1, 1, 1)
    a_prev = alpha_prev.view(-1, 1, 1, 1)
    x0 = (x - (1 - a).sqrt() * noise) / a.sqrt()
    s = x0.abs().amax(dim=(1, 2, 3), keepdim=True).clamp_min(1.0)
    x0 = torch.maximum(torch.minimum(x0, s), -s) / s
    sigma = 0.5 * ((1 - a_prev) / (1 - a)).sqrt() * (1 - a / a_prev).sqrt()
    direction = (1.0 - a_prev - sigma.square()).clamp(min=0).sqrt() * noise
    return a_prev.sqrt() * x0 + direction


inputs = (
    torch.randn(2, 3, 6, 6),
    torch.randn(2, 3, 6, 6),
    torch.tensor([0.5, 0.6]),
    torch.tensor([0.7, 0.8]),
)
