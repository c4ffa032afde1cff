"""One step of Adadelta on the parameters in place, as torch.optim has it for one tensor."""

import torch
from torch import Tensor


@torch.no_grad()
def model(param: Tensor, grad: Tensor, square_avg: Tensor, acc_delta: Tensor) -> Tensor:
    lr, rho, eps, weight_decay = 1.0, 0.9, 1e-6, 0.01
    grad = grad.add(param, alpha=weight_decay)
    square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
    std = square_avg.add(eps).sqrt_()
    delta = acc_delta.add(eps).sqrt_()
    delta.div_(std).mul_(grad)
    acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
    param.add_(delta, alpha=-lr)
    return param


inputs = (torch.randn(8, 8), torch.randn(8, 8), torch.zeros(8, 8), torch.zeros(8, 8))
