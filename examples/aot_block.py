"""Bias, dropout, addition and layer norm of a transformer block, compiled by AOTAutograd.

fusiondoc diagnose examples/aot_block.py --backward
"""

import torch
import torch.nn.functional as F
from functorch.compile import memory_efficient_fusion


def block(x, bias, residual, weight, shift):
    x = F.dropout(x + bias, 0.1)
    x = x + residual
    return F.layer_norm(x, (x.size(-1),), weight, shift)


device = "cuda" if torch.cuda.is_available() else "cpu"
model = memory_efficient_fusion(block)


def inputs():
    x, residual = (torch.randn(8, 128, 256, device=device, requires_grad=True) for _ in range(2))
    bias, weight, shift = (torch.randn(256, device=device, requires_grad=True) for _ in range(3))
    return x, bias, residual, weight, shift
