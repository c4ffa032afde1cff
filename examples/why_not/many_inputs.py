"""A sum of 125 tensors: more than one kernel takes.

    fusiondoc diagnose examples/why_not/many_inputs.py --trace

A group takes at most 128 inputs and outputs; one addition is left over. Fix: one operator on one
large tensor, where it matters. Here two groups would do as well.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


class Total(torch.nn.Module):
    def __init__(self, parts: int) -> None:
        super().__init__()
        self.parts = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.randn(4), requires_grad=False) for _ in range(parts)]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = x + part
        return x


model = Total(124).to(device)
fixed = Total(100).to(device)
inputs = (torch.randn(4, device=device),)
OPTIONS = ("--trace",)
FIX_OPTIONS = ("--trace",)

EXPECT = {"nnc": [("aten::add", "FD218")], "nvfuser": [("aten::add", "FD234")]}
FUSED = ("aten::add",) * 100
