"""Training with an operator that TorchScript cannot differentiate.

    fusiondoc diagnose examples/why_not/no_gradient_formula.py --backward

Without gradients all of this is one group. With them torch cuts the graph into regions that it can
differentiate; atan2 has no formula, so it stays outside, and there is a group on each side of it,
forward and backward. Fix: for a positive scale `atan(y / scale)` is the same, and has one.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    y = (x * 2).relu()
    return torch.atan2(y, scale).sigmoid() * 3


def fixed(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    y = (x * 2).relu()
    return torch.atan(y / scale).sigmoid() * 3


inputs = (torch.randn(8, 16, device=device, requires_grad=True), torch.ones(16, device=device))
OPTIONS = ("--backward",)

EXPECT = {"nnc": [("aten::atan2", "FD231")], "nvfuser": [("aten::atan2", "FD231")]}
FUSED = ("aten::mul", "aten::relu", "aten::div", "aten::atan", "aten::sigmoid", "aten::mul")
