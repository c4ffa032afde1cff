"""A step of Adafactor on one matrix: factored second moments, clipping by the root mean square."""

import torch
from torch import Tensor


def rms(x: Tensor) -> Tensor:
    return x.norm(2) / (x.numel() ** 0.5)


def model(p: Tensor, grad: Tensor, row: Tensor, col: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
    beta2t = 1.0 - float(step) ** -0.8
    update = grad**2 + 1e-30
    row = row.mul(beta2t).add_(update.mean(dim=-1), alpha=1.0 - beta2t)
    col = col.mul(beta2t).add_(update.mean(dim=-2), alpha=1.0 - beta2t)
    r_factor = (row / row.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
    c_factor = col.unsqueeze(-2).rsqrt()
    update = torch.mul(r_factor, c_factor)
    update.mul_(grad)
    update.div_((rms(update) / 1.0).clamp_(min=1.0))
    lr = 1e-3 * torch.max(torch.tensor(1e-3), rms(p))
    update = update * lr
    p = p * (1 - 0.01 * lr)
    p = p - update
    return p, row, col


inputs = (torch.randn(12, 10), torch.randn(12, 10), torch.rand(12), torch.rand(10), 4)
