"""A loop whose number of steps is an argument.

    fusiondoc diagnose examples/why_not/loop.py

The steps are unrolled by eight and fuse within the body; the relu behind the loop stays alone,
because no group crosses the edge of a loop. Fix: write the number of steps out, and the loop is
unrolled altogether.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, steps: int) -> torch.Tensor:
    for _ in range(steps):
        x = x * 0.5 + 1
    return x.relu()


def fixed(x: torch.Tensor, steps: int) -> torch.Tensor:
    for _ in range(3):
        x = x * 0.5 + 1
    return x.relu()


inputs = (torch.randn(8, 16, device=device), 3)

_ROWS = [("prim::Loop", "FD229"), ("aten::relu", "FD225")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
FUSED = ("aten::mul", "aten::add", "aten::mul", "aten::add", "aten::mul", "aten::add", "aten::relu")
