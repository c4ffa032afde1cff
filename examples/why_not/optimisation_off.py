"""Graph optimisation is off, as under torch.jit.optimized_execution(False).

    fusiondoc diagnose examples/why_not/optimisation_off.py --knob graph_optimize=off

Graphs run as they are written, without any pass. Fix: turn it on.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + 1


inputs = (torch.randn(8, 16, device=device),)
OPTIONS = ("--knob", "graph_optimize=off")

EXPECT = {"nnc": [(None, "FD104")], "nvfuser": [(None, "FD104")]}
FUSED = ("aten::mul", "aten::relu", "aten::add")
