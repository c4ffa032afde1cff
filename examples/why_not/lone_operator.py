"""One relu between two linear layers.

    fusiondoc diagnose examples/why_not/lone_operator.py

Nothing is fused. The relu could be, but has only matrix products next to it, and a kernel for one
operator saves nothing. Nothing to fix.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


class Perceptron(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(16, 32, bias=False)
        self.out = torch.nn.Linear(32, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.hidden(x).relu())


model = Perceptron().to(device)
inputs = (torch.randn(8, 16, device=device),)

EXPECT = {"nnc": [("aten::relu", "FD225")], "nvfuser": [("aten::relu", "FD225")]}
