"""A comparison in training: the mask is made outside the differentiable region.

    fusiondoc diagnose examples/why_not/comparison_gradient.py --backward

A comparison has no gradient, and neither has what is computed from it, so both are left outside
every region, where nothing fuses. Without gradients all is one group. Fix here: relu and clamp make
their masks themselves, in forward and backward.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    mask = (x > 0.0).to(torch.float)
    return x * mask * 2


def fixed(x: torch.Tensor) -> torch.Tensor:
    return x.relu() * 2


inputs = (torch.randn(8, 16, device=device, requires_grad=True),)
OPTIONS = ("--backward",)

_ROWS = [("aten::gt", "FD231"), ("aten::to", "FD231")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
FUSED = ("aten::relu", "aten::mul")
