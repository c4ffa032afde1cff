"""No fuser is on, as under torch.jit.fuser("none").

    fusiondoc diagnose examples/why_not/fuser_off.py --fuser none

Graphs are optimised, and no fuser looks at them. Fix: name one.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + 1


inputs = (torch.randn(8, 16, device=device),)
OPTIONS = ("--fuser", "none")

_ROWS = [("aten::mul", "FD104"), ("aten::relu", "FD104"), ("aten::add", "FD104")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
FUSED = ("aten::mul", "aten::relu", "aten::add")
