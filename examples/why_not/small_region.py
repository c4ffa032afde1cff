"""A differentiable region of one operator is undone.

    fusiondoc diagnose examples/why_not/small_region.py --backward

atan2 has no gradient formula in TorchScript. Between the two of them is one multiplication: a
region of one operator is not worth it, so the multiplication stays outside as well. Fix: operators
that have a formula next to it, here atan.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    y = torch.atan2((x * 2).relu(), scale)
    return torch.atan2(y * 3, scale)


def fixed(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    y = torch.atan((x * 2).relu() / scale) * 3
    return torch.atan2(y, scale)


inputs = (torch.randn(8, 16, device=device, requires_grad=True), torch.ones(16, device=device))
OPTIONS = ("--backward",)

_ROWS = [("aten::atan2", "FD231"), ("aten::mul", "FD231")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
FUSED = ("aten::mul", "aten::relu", "aten::div", "aten::atan", "aten::mul")
