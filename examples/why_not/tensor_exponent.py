"""A power whose exponent is a tensor.

    fusiondoc diagnose examples/why_not/tensor_exponent.py

nvFuser takes it; NNC takes numbers only, so aten::pow stays out and the multiplication before it is
alone. Fix: a number, if it is always the same.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    return (torch.pow(x * 2, exponent) + 1).relu()


def fixed(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    return (torch.pow(x * 2, 2) + 1).relu()


inputs = (torch.rand(8, 16, device=device), torch.tensor([2.0], device=device))

EXPECT = {"nnc": [("aten::pow", "FD211"), ("aten::mul", "FD227")], "nvfuser": []}
FUSED = ("aten::mul", "aten::pow", "aten::add", "aten::relu")
