import torch
import torch.nn.functional as F
from torch import Tensor


def model(x: Tensor) -> Tensor:
    h = x.cumsum(0)
    v = F.dropout(h, 0.5, False)
    v += 1.0
    return torch.tanh(v) * 2.0 + h


torch.manual_seed(0)
inputs = (torch.randn(4, 8),)
