"""A branch on the data: `if x.sum() > 0`.

    fusiondoc diagnose examples/why_not/data_branch.py

You see one small group before the branch; what is in it and behind it runs alone. The value must be
read back before the branch can be taken, on a GPU with a wait for it. Of the two sides only the one
that ran while profiling has types. Fix: torch.where computes both sides, and that is cheaper than
the branch.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + 1
    if bool(x.sum() > 0):
        y = y * 0.5
    else:
        y = y * 2
    return y.relu()


def fixed(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + 1
    return torch.where(x.sum() > 0, y * 0.5, y * 2).relu()


inputs = (torch.ones(8, 16, device=device),)

EXPECT = {
    "nnc": [("prim::If", "FD229"), ("aten::mul", "FD228"), ("aten::relu", "FD227")],
    "nvfuser": [("prim::If", "FD229"), ("aten::relu", "FD227")],
}
FUSED = ("aten::mul", "aten::add", "aten::gt", "aten::mul", "aten::mul", "aten::where", "aten::relu")
