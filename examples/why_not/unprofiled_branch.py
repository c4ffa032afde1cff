"""A branch that was not taken while profiling.

    fusiondoc diagnose examples/why_not/unprofiled_branch.py

The addition and the tanh have no profiled types: their code did not run in the first pass, so it is
never fused, also not when it runs later. Fix: start with a run that takes the branch.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, warm: bool) -> torch.Tensor:
    y = x.relu() * 2
    if warm:
        y = (y + 1).tanh()
    return y.sigmoid() * 3


inputs = (torch.randn(8, 16, device=device), False)
FIX_OPTIONS = ("--input", "float32[8,16]", "--input", "true", "--device", device)

EXPECT = {
    "nnc": [("prim::If", "FD229"), ("aten::add", "FD232"), ("aten::tanh", "FD232")],
    "nvfuser": [("prim::If", "FD229"), ("aten::add", "FD232"), ("aten::tanh", "FD232")],
}
FUSED = ("aten::add", "aten::tanh")
