"""Layer norm and RMS norm written with means."""

import torch
from torch import Tensor


def model(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(-1, keepdim=True)
    y = centred / torch.sqrt(variance + 1e-5)
    y = y * gamma + beta
    rms = y.square().mean(-1, keepdim=True).add_(1e-6).rsqrt_()
    return y * rms + x


inputs = (torch.randn(4, 6, requires_grad=True), torch.ones(6, requires_grad=True), torch.zeros(6))
