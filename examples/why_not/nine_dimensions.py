"""A tensor of nine dimensions.

    fusiondoc diagnose examples/why_not/nine_dimensions.py

NNC fuses it. nvFuser takes up to eight dimensions and calls this a scalar type that it does not
support. Fix: flatten first; elementwise operators do not care.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu()


def fixed(x: torch.Tensor) -> torch.Tensor:
    return (x.flatten(1) * 2).relu().view(x.size())


inputs = (torch.randn(2, 2, 2, 2, 2, 2, 2, 2, 2, device=device),)

EXPECT = {"nnc": [], "nvfuser": [("aten::mul", "FD202"), ("aten::relu", "FD202")]}
FUSED = ("aten::mul", "aten::relu")
