"""Dropout that follows the module's `training` flag, in a module that was not frozen.

    fusiondoc diagnose examples/why_not/dropout_flag.py

In eval mode this dropout does nothing, but the graph still calls it, with the flag as an argument.
NNC has no rule for dropout, so it separates the multiplication from the addition. nvFuser has one,
and remembers the flag. Fix for inference: freeze the module; dropout is removed.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.dropout(x * 2) + residual


model = Residual().eval()
fixed = torch.jit.freeze(torch.jit.script(Residual().eval()))
inputs = (torch.randn(8, 16, device=device), torch.randn(8, 16, device=device))

EXPECT = {
    "nnc": [("aten::dropout", "FD211"), ("aten::mul", "FD227"), ("aten::add", "FD227")],
    "nvfuser": [],
}
FUSED = ("aten::mul", "aten::add")
UNCHANGED = {"nvfuser": ("aten::mul", "aten::dropout", "aten::add")}
