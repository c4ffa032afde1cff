"""Splitting heads: only views.

    fusiondoc diagnose examples/why_not/only_views.py

Nothing is fused, and nothing is lost: a view changes sizes and strides and touches no data.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, 4, 16).transpose(0, 1).unsqueeze(0)


inputs = (torch.randn(8, 16, device=device),)

_ROWS = [("aten::view", "FD226"), ("aten::transpose", "FD226"), ("aten::unsqueeze", "FD226")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
