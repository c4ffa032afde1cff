"""Assigning to a column: `y[:, 0] = first`.

    fusiondoc diagnose examples/why_not/slice_assignment.py

It reads like an assignment and is a copy in place through a view (aten::slice, aten::select,
aten::copy_), so it cuts the chain in two. Fix: choose with torch.where. The mask is made once,
outside the function.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, first: torch.Tensor, is_first: torch.Tensor) -> torch.Tensor:
    y = x.relu() * 2
    y[:, 0] = first
    return y.sigmoid() + 1


def fixed(x: torch.Tensor, first: torch.Tensor, is_first: torch.Tensor) -> torch.Tensor:
    y = x.relu() * 2
    y = torch.where(is_first, first.unsqueeze(1), y)
    return y.sigmoid() + 1


inputs = (
    torch.randn(8, 16, device=device),
    torch.randn(8, device=device),
    torch.arange(16, device=device) == 0,
)

_ROWS = [("aten::copy_", "FD230"), ("aten::slice", "FD226"), ("aten::select", "FD226")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
_ALL = ("aten::relu", "aten::mul", "aten::where", "aten::sigmoid", "aten::add")
FUSED = {"nnc": (*_ALL[:2], "aten::unsqueeze", *_ALL[2:]), "nvfuser": _ALL}
