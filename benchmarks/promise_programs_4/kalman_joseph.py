"""A Kalman step of a scalar measurement for a batch, with gating and the Joseph form."""

import torch
from torch import Tensor


def model(x: Tensor, p: Tensor, z: Tensor, h: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    x = x * 0.98
    p = p * 0.96 + 0.02
    ph = (p * h[:, None, :]).sum(-1)
    s = (ph * h).sum(-1) + r
    gain = ph / s[:, None]
    innovation = z - (x * h).sum(-1)
    innovation[innovation.abs() > 3.0] = 0.0
    x = torch.addcmul(x, gain, innovation[:, None])
    left = torch.eye(4, device=x.device) - gain[:, :, None] * h[:, None, :]
    p = left @ p @ left.transpose(1, 2)
    p += gain[:, :, None] * gain[:, None, :] * r[:, None, None]
    return x, 0.5 * (p + p.transpose(1, 2))


root = torch.randn(3, 4, 4) * 0.3
inputs = (
    torch.randn(3, 4),
    root @ root.transpose(1, 2) + torch.eye(4),
    torch.randn(3),
    torch.randn(3, 4),
    torch.rand(3) + 0.5,
)
