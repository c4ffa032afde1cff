"""A view in the middle of a block that is trained.

    fusiondoc diagnose examples/why_not/view_in_training.py --backward

Without gradients the view is no matter. With them torch cuts the graph into regions that it can
differentiate, and aten::view has no formula: one region ends before it, another begins after it, and
there are two groups forward and two backward. Fix: change the shape before the block or after it.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).relu()
    y = y.view(4, 32)
    return (y.sigmoid() * 3).tanh()


def fixed(x: torch.Tensor) -> torch.Tensor:
    y = x.view(4, 32)
    y = (y * 2).relu()
    return (y.sigmoid() * 3).tanh()


inputs = (torch.randn(8, 16, device=device, requires_grad=True),)
OPTIONS = ("--backward",)

_ROWS = [("aten::view", "FD231")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
FUSED = ("aten::mul", "aten::relu", "aten::sigmoid", "aten::mul", "aten::tanh")
