"""A batched matrix product between two groups.

    fusiondoc diagnose examples/why_not/matmul_between.py

You see a group on each side of aten::matmul. Matrix products have libraries of their own; NNC takes
small ones of two dimensions on the CPU, nvFuser none. Nothing to fix.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.matmul((x * 2).relu(), weight).sigmoid() + 1


inputs = (torch.randn(2, 8, 16, device=device), torch.randn(16, 16, device=device))

EXPECT = {"nnc": [("aten::matmul", "FD215")], "nvfuser": [("aten::matmul", "FD201")]}
