"""A softmax under NNC.

    fusiondoc diagnose examples/why_not/softmax.py

nvFuser takes it. NNC does so only if its reductions are on; else the scaling before it is alone.
Fix: turn them on.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.125, -1) * 2 + 1


inputs = (torch.randn(8, 16, device=device),)
FIX_OPTIONS = ("--knob", "nnc_reductions=on")

EXPECT = {"nnc": [("aten::softmax", "FD211"), ("aten::mul", "FD227")], "nvfuser": []}
FUSED = ("aten::mul", "aten::softmax", "aten::mul", "aten::add")
