"""A sort between two groups.

    fusiondoc diagnose examples/why_not/sort_between.py

You see two groups, and aten::sort between them: no fuser takes it. NNC words it as an unknown
shape, because operators that it has no rule for are not profiled either. Nothing to fix: a sort
needs all of its input.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).relu()
    values, _ = torch.sort(y, 1)
    return (values + 1).sigmoid()


inputs = (torch.randn(8, 16, device=device),)

EXPECT = {"nnc": [("aten::sort", "FD233")], "nvfuser": [("aten::sort", "FD201")]}
