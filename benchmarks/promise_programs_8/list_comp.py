import torch
from torch import Tensor


def model(x: Tensor) -> Tensor:
    hs = [x.cumsum(0), x.cumsum(1)]
    ys = [torch.tanh(h) for h in hs]
    for h in hs:
        h += 1.0
        h *= 2.0
    return ys[0] * 2.0 + hs[0] + ys[1]


torch.manual_seed(0)
inputs = (torch.randn(4, 8),)
