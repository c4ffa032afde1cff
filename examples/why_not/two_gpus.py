"""Tensors on two GPUs. Needs two of them.

    fusiondoc diagnose examples/why_not/two_gpus.py

Work on the first GPU fuses; so does work on the second; a group never spans both, and the copy
between them is alone: no fuser takes aten::to with a device. Fix: keep a block on one GPU.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"

GPUS = 2


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first = (x * 2).relu()
    return (first.to(y.device) * y).tanh()


second = "cuda:1" if torch.cuda.device_count() > 1 else device
inputs = (torch.randn(8, 16, device=device), torch.randn(8, 16, device=second))

EXPECT = {"nnc": [("aten::to", "FD211")], "nvfuser": [("aten::to", "FD201")]}
