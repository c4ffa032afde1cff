"""The profiling executor is off.

    fusiondoc diagnose examples/why_not/executor_off.py --knob profiling_executor=off

Without it nothing is profiled, and nvFuser and NNC have no shapes to work with. Of NNC no line is in the
log; nvFuser makes a group and then refuses to compile it, so that it falls back. Some packages turn the
executor off when they are imported. Fix: turn it on.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + 1


inputs = (torch.randn(8, 16, device=device),)
OPTIONS = ("--knob", "profiling_executor=off")

EXPECT = {"nnc": [(None, "FD104")], "nvfuser": [(None, "FD104"), (None, "FD301")]}
FUSED = ("aten::mul", "aten::relu", "aten::add")
