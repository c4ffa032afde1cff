"""New values of Adagrad with decay of the rate and a clipped gradient, given back to the training loop."""

import torch
from torch import Tensor


def model(param: Tensor, grad: Tensor, state_sum: Tensor, step: int) -> tuple[Tensor, Tensor]:
    norm = grad.norm(2)
    grad = grad * (1.0 / (norm + 1e-6)).clamp(max=1.0)
    clr = 0.1 / (1 + (step - 1) * 0.01)
    total = state_sum.clone()
    total.addcmul_(grad, grad, value=1.0)
    std = total.sqrt().add_(1e-10)
    new = param.clone()
    new.addcdiv_(grad, std, value=-clr)
    return new, total


inputs = (torch.randn(8, 8), torch.randn(8, 8), torch.zeros(8, 8), 3)
