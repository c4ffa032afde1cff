"""Positions that were made without `device=`: a chain on the CPU in a model on the GPU.

    fusiondoc diagnose examples/why_not/tensors_on_the_cpu.py

nvFuser compiles for GPUs alone; NNC fuses this on the CPU too. Fix: `torch.arange(16,
device=x.device)`.
"""

import torch


def model(positions: torch.Tensor) -> torch.Tensor:
    return (positions * 0.5).cos() + 1


inputs = (torch.arange(16, dtype=torch.float32),)
FIX_OPTIONS = ("--input", "float32[16]")

EXPECT = {
    "nnc": [],
    "nvfuser": [("aten::mul", "FD204"), ("aten::cos", "FD204"), ("aten::add", "FD204")],
}
FUSED = ("aten::mul", "aten::cos", "aten::add")
