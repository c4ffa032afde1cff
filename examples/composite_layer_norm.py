"""Bias, dropout, addition and layer norm of a transformer block, with PyTorch's own layer_norm.

    fusiondoc diagnose examples/composite_layer_norm.py --backward

It is the first block of the nvFuser tutorial. Dropout keeps it from giving the same numbers under each fuser.
"""

import torch
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
batch, length, features = (64, 128, 1024) if device == "cuda" else (2, 4, 16)


def model(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    dropped = F.dropout(x + bias, 0.1, training=True)
    return F.layer_norm(dropped + residual, (x.size(2),), weight, shift)


def vector() -> torch.Tensor:
    return torch.randn(features, device=device, requires_grad=True)


def activation() -> torch.Tensor:
    return torch.randn(batch, length, features, device=device, requires_grad=True)


inputs = (activation(), activation(), vector(), vector(), vector())
