"""One step of Lion on parameters in place, as optimisers have it."""

import torch
from torch import Tensor


def model(p: Tensor, grad: Tensor, exp_avg: Tensor) -> Tensor:
    p.mul_(1 - 0.001 * 0.01)
    update = exp_avg.clone().mul_(0.9).add(grad, alpha=0.1).sign_()
    p.add_(update, alpha=-0.001)
    exp_avg.mul_(0.99).add_(grad, alpha=0.01)
    return update.abs().sum()


inputs = (torch.randn(6, 6), torch.randn(6, 6), torch.zeros(6, 6))
