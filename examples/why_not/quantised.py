"""A relu on a quantised tensor.

    fusiondoc diagnose examples/why_not/quantised.py

Nothing is fused: fusers have no quantised kernels. NNC says nothing at all, nvFuser speaks of a scalar
type, and leaves the multiplication alone. Fix: dequantise before the chain, and compute in float; in a
group the float tensors are never written.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return x.relu().dequantize() * 2


def fixed(x: torch.Tensor) -> torch.Tensor:
    return x.dequantize().relu() * 2


inputs = (torch.quantize_per_tensor(torch.randn(8, 16, device=device), 0.1, 0, torch.quint8),)

EXPECT = {
    "nnc": [("aten::relu", "FD223"), ("aten::dequantize", "FD223")],
    "nvfuser": [("aten::relu", "FD202"), ("aten::dequantize", "FD201"), ("aten::mul", "FD225")],
}
FUSED = ("aten::relu", "aten::mul")
