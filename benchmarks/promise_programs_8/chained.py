import torch
from torch import Tensor


def model(x: Tensor) -> Tensor:
    a = b = x.cumsum(0)
    a += 1.0
    return torch.tanh(a) * 2.0 + b


torch.manual_seed(0)
inputs = (torch.randn(4, 8),)
