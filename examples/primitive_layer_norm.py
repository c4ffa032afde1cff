"""The block of composite_layer_norm.py with layer norm written out in means, differences and a square root.

    fusiondoc diagnose examples/primitive_layer_norm.py --backward

Eager, each line reads and writes whole tensors; a fuser that takes reductions makes it as fast as layer_norm.
"""

import torch
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
batch, length, features = (64, 128, 1024) if device == "cuda" else (2, 4, 16)


def model(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    shift: torch.Tensor,
    axis: int,
    keepdim: bool,
) -> torch.Tensor:
    h = F.dropout(x + bias, 0.1, training=True) + residual
    mean = h.mean(axis, keepdim=keepdim)
    centred = h - mean
    variance = (centred * centred).mean(axis, keepdim=keepdim)
    return weight * ((h - mean) / torch.sqrt(variance + 1e-12)) + shift


def vector() -> torch.Tensor:
    return torch.randn(features, device=device, requires_grad=True)


def activation() -> torch.Tensor:
    return torch.randn(batch, length, features, device=device, requires_grad=True)


inputs = (activation(), activation(), vector(), vector(), vector(), 2, True)
