"""An operator that an environment variable keeps from NNC.

    PYTORCH_TENSOREXPR_DONT_FUSE=tanh fusiondoc diagnose examples/why_not/switched_off.py

The tanh stays out, and with it the multiplication before it, which then is alone. Such variables
stay in job scripts long after the problem they worked around is gone. Fix: unset it.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor) -> torch.Tensor:
    return ((x * 2).tanh() + 1).relu()


inputs = (torch.randn(8, 16, device=device),)
ENVIRONMENT = {"PYTORCH_TENSOREXPR_DONT_FUSE": "tanh"}
FIX_OPTIONS = ()

EXPECT = {"nnc": [("aten::tanh", "FD217"), ("aten::mul", "FD227")], "nvfuser": []}
FUSED = ("aten::mul", "aten::tanh", "aten::add", "aten::relu")
