"""A cumulative sum between two elementwise parts.

    fusiondoc diagnose examples/why_not/cumsum_between.py

No fuser takes cumsum. What comes before needs a pass over memory of its own, and the addition
behind it is alone. There is no fix for the order: two parts are right. Put more of the elementwise
work on one side where you can.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).relu()
    return torch.cumsum(y, 1) + 1


def fixed(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).relu() + 0.5
    return torch.cumsum(y, 1)


inputs = (torch.randn(8, 16, device=device),)

EXPECT = {
    "nnc": [("aten::cumsum", "FD211"), ("aten::add", "FD227")],
    "nvfuser": [("aten::cumsum", "FD201"), ("aten::add", "FD227")],
}
FUSED = ("aten::mul", "aten::relu", "aten::add")
