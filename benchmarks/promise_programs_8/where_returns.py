import torch
from torch import Tensor


def model(x: Tensor) -> Tensor:
    h = x.cumsum(0)
    if x.dim() > 1:
        v = h
    else:
        v = h * 2.0
    v += 1.0
    return torch.tanh(v) * 2.0 + h


torch.manual_seed(0)
inputs = (torch.randn(4, 8),)
