"""The block of composite_layer_norm.py with RMSNorm, which most versions of torch have no operator for.

fusiondoc diagnose examples/rms_norm.py --backward
"""

import torch
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
batch, length, features = (64, 128, 1024) if device == "cuda" else (2, 4, 16)


def model(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    h = F.dropout(x + bias, 0.1, training=True) + residual
    mean_square = (h * h).mean(2, keepdim=True)
    return weight * (h / torch.sqrt(mean_square + 1e-12))


def vector() -> torch.Tensor:
    return torch.randn(features, device=device, requires_grad=True)


def activation() -> torch.Tensor:
    return torch.randn(batch, length, features, device=device, requires_grad=True)


inputs = (activation(), activation(), vector(), vector())
