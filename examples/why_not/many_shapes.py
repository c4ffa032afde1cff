"""Five lengths, where two shapes may be compiled.

    fusiondoc diagnose examples/why_not/many_shapes.py --knob fusion_strategy=STATIC:2

The first two lengths get groups of their own; from the third on the unfused copy runs. nvFuser's
kernels take any length. Fix: let NNC make a group for any size, or pad.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + 1


inputs = [(torch.randn(length, 4, device=device),) for length in (8, 9, 10, 11, 12)]
OPTIONS = ("--knob", "fusion_strategy=STATIC:2")
FIX_OPTIONS = ("--knob", "fusion_strategy=DYNAMIC:2")

EXPECT = {
    "nnc": [("aten::mul", "FD304"), ("aten::relu", "FD304"), ("aten::add", "FD304"), (None, "FD305")],
    "nvfuser": [],
}
FUSED = ("aten::mul", "aten::relu", "aten::add")
