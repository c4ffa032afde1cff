"""A scale that is read back with .item().

    fusiondoc diagnose examples/why_not/run_time_number.py

The number is known only when it runs, on a GPU after a wait. NNC does not divide by a number that could
change the type; nvFuser makes a group with it, cannot compile it and falls back. Fix: leave it a
tensor.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return (x / x.max().item() + 1).relu()


def fixed(x: torch.Tensor) -> torch.Tensor:
    return (x / x.max() + 1).relu()


inputs = (torch.rand(8, 16, device=device),)

EXPECT = {"nnc": [("aten::div", "FD211")], "nvfuser": [("aten::max", "FD201"), (None, "FD301")]}
FUSED = ("aten::div", "aten::add", "aten::relu")
