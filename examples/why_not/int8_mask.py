"""A mask of 8-bit integers.

    fusiondoc diagnose examples/why_not/int8_mask.py

NNC fuses it. nvFuser has no 8-bit integers, so the multiplication stays outside, and the relu is
alone. Fix: a mask of bool.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    return (x * keep).relu()


inputs = (torch.randn(8, 16, device=device), torch.ones(8, 16, device=device, dtype=torch.int8))
FIX_OPTIONS = ("--input", "float32[8,16]", "--input", "bool[8,16]", "--device", device)

EXPECT = {"nnc": [], "nvfuser": [("aten::mul", "FD202")]}
FUSED = ("aten::mul", "aten::relu")
