"""An Optional mask: `if mask is not None` leaves every operator alone.

    fusiondoc diagnose examples/why_not/optional_mask.py

You see no group at all. Whether there is a mask is known only in each call, so the test stays in
the graph: the scaling is before the branch, the addition inside, the relu after it. Fix: a function
that always takes a mask (give a mask of zeros where there is none), and another one for calls
without.
"""

from typing import Optional

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(scores: torch.Tensor, mask: Optional[torch.Tensor]) -> torch.Tensor:
    scores = scores * 0.125
    if mask is not None:
        scores = scores + mask
    return scores.relu()


def fixed(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (scores * 0.125 + mask).relu()


inputs = (torch.randn(8, 16, device=device), torch.randn(8, 16, device=device))

_ROWS = [("prim::If", "FD229"), ("aten::mul", "FD228"), ("aten::add", "FD228"), ("aten::relu", "FD227")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
FUSED = ("aten::mul", "aten::add", "aten::relu")
