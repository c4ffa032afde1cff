"""Training in which TorchScript can differentiate nothing: no fusion pass runs at all.

    fusiondoc diagnose examples/why_not/no_region.py --backward

You see no group, and no line of a fuser. Where gradients are needed, fusers look only into
differentiable regions; here there is none. Fix: write the operators out, or run under
torch.no_grad() for inference.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


def model(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.atan2(torch.atan2(x, scale) * 3, scale)


def fixed(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.atan(torch.atan(x / scale) * 3 / scale)


inputs = (torch.randn(8, 16, device=device, requires_grad=True), torch.ones(16, device=device))
OPTIONS = ("--backward",)

_ROWS = [("aten::atan2", "FD231"), ("aten::mul", "FD231")]
EXPECT = {"nnc": _ROWS, "nvfuser": _ROWS}
FUSED = ("aten::div", "aten::atan", "aten::mul", "aten::div", "aten::atan")
