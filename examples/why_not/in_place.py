"""An in-place addition in the middle of a chain.

    fusiondoc diagnose examples/why_not/in_place.py

Under NNC you see two groups and aten::add_ between them. A change in place must be seen by everything
else that reads the tensor, so NNC leaves it where it is. nvFuser first rewrites such changes where it
can, and fuses all of this. Fix: `y = y + 1`. Inside a group it takes no memory.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    y = x.relu() * 2
    y.add_(1)
    return y.sigmoid().tanh()


def fixed(x: torch.Tensor) -> torch.Tensor:
    y = x.relu() * 2
    y = y + 1
    return y.sigmoid().tanh()


inputs = (torch.randn(8, 16, device=device),)

EXPECT = {"nnc": [("aten::add_", "FD230")], "nvfuser": []}
FUSED = ("aten::relu", "aten::mul", "aten::add", "aten::sigmoid", "aten::tanh")
