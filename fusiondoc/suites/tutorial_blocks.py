"""The blocks of the nvFuser tutorial: what stands behind a matrix product in a transformer.

Bias, dropout, residual, normalisation: with torch's own layer norm, with one written from means and products,
and with RMSNorm. Constants are in the functions because ``memory_efficient_fusion`` takes tensors alone.

    fusiondoc bench --suite tutorial
    fusiondoc bench tutorial_blocks.py:rms_norm --backward --input 'float32[64,128,1024]:grad' ...
"""

import torch
import torch.nn.functional as F


def composite(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    summed = F.dropout(x + bias, 0.1, True) + residual
    return F.layer_norm(summed, (x.size(2),), weight, shift)


def primitive(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    summed = F.dropout(x + bias, 0.1, True) + residual
    centred = summed - summed.mean(2, keepdim=True)
    variance = (centred * centred).mean(2, keepdim=True)
    return weight * (centred / torch.sqrt(variance + 1e-12)) + shift


def rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    summed = F.dropout(x + bias, 0.1, True) + residual
    mean_square = (summed * summed).mean(2, keepdim=True)
    return weight * (summed / torch.sqrt(mean_square + 1e-12))
