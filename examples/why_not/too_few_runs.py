"""One run only profiles.

    fusiondoc diagnose examples/why_not/too_few_runs.py --runs 1

The first run records types and shapes; the second one compiles and fuses. Fix: run it three times
or more.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + 1


inputs = (torch.randn(8, 16, device=device),)
OPTIONS = ("--runs", "1")
FIX_OPTIONS = ("--runs", "3")

EXPECT = {"nnc": [(None, "FD101")], "nvfuser": [(None, "FD101")]}
FUSED = ("aten::mul", "aten::relu", "aten::add")
