"""A CPU tensor of no dimensions among tensors on a GPU.

    fusiondoc diagnose examples/why_not/cpu_scalar.py

Eager PyTorch allows it. nvFuser of torch 1.12 and later takes it as a number; NNC refuses two
devices. Fix: make the tensor on the GPU, or use a number. Without a GPU all is on one device, and
fuses.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x * scale + 1).relu()


def fixed(x: torch.Tensor, scale: float) -> torch.Tensor:
    return (x * scale + 1).relu()


inputs = (torch.randn(8, 16, device=device), torch.tensor(0.5))
FIX_OPTIONS = ("--input", "float32[8,16]", "--input", "0.5", "--device", device)

EXPECT = {"nnc": [("aten::mul", "FD214")] if device == "cuda" else [], "nvfuser": []}
FUSED = ("aten::mul", "aten::add", "aten::relu")
