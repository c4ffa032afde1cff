"""Drop path (stochastic depth): `if self.training` cuts the block in two.

    fusiondoc diagnose examples/why_not/drop_path.py

You see two groups and a prim::If between them. `training` is an attribute that may change at any
time, so the branch stays in the graph, and no group reaches across a branch. Fix: freeze the module
in eval mode; the flag becomes a constant and the branch goes away.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x + self.bias).relu()
        if self.training:
            y = y * torch.rand(x.size(0), 1, device=x.device).lt(0.9)
        return (x + y).relu()


model = Block().to(device)
fixed = torch.jit.freeze(torch.jit.script(Block().to(device).eval()))
inputs = (torch.randn(8, 16, device=device),)

EXPECT = {"nnc": [("prim::If", "FD229")], "nvfuser": [("prim::If", "FD229")]}
FUSED = ("aten::add", "aten::relu", "aten::add", "aten::relu")
