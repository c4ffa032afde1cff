"""A view that is an output too: in training, what follows from it leaves the differentiable region.

    fusiondoc diagnose examples/why_not/alias_output.py --backward

`flat` shares memory with `x`. A differentiable region must not hand out a view of its own input, so
the view is put outside, and the relu on it, which then is a region of one operator, is outside as
well. Without gradients both are fused. Fix: nothing much; return views from outside the scripted
function.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    flat = x.view(-1, 16)
    return (flat * weight).relu(), flat.relu()


inputs = (
    torch.randn(2, 8, 16, device=device, requires_grad=True),
    torch.randn(16, device=device, requires_grad=True),
)
OPTIONS = ("--backward",)

_ROWS = [("aten::view", "FD226"), ("aten::relu", "FD231")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
