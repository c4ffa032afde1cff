"""float16 on a CPU without LLVM.

    fusiondoc diagnose examples/why_not/half_on_the_cpu.py

NNC refuses float16 and bfloat16 there and states it; nvFuser refuses the CPU. Fix: float32 on the
CPU, or run on a GPU.
"""

import torch


def model(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + 1).relu()


inputs = (torch.randn(8, 16).half(),)
FIX_OPTIONS = ("--input", "float32[8,16]")

EXPECT = {
    "nnc": [("aten::mul", "FD215"), ("aten::add", "FD215"), ("aten::relu", "FD215")],
    "nvfuser": [("aten::mul", "FD204"), ("aten::add", "FD204"), ("aten::relu", "FD204")],
}
FUSED = ("aten::mul", "aten::add", "aten::relu")
