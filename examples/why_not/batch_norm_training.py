"""Batch norm in training mode.

    fusiondoc diagnose examples/why_not/batch_norm_training.py

NNC takes batch norm for inference only, and asks for constant weights; nvFuser takes both, but the
module checks the dimensions of its input, which keeps the multiplication out. The counter of batches is
one number, and nothing is lost with it. Fix for inference: freeze the module in eval mode.
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.norm(x * 2) + 1).relu()


model = Block().to(device)
fixed = torch.jit.freeze(torch.jit.script(Block().to(device).eval()))
inputs = (torch.randn(8, 16, device=device),)

EXPECT = {
    "nnc": [("aten::batch_norm", "FD219"), ("aten::mul", "FD227"), ("aten::add_", "FD226")],
    "nvfuser": [("aten::mul", "FD227"), ("aten::add_", "FD226")],
}
FUSED = ("aten::mul", "aten::batch_norm", "aten::add", "aten::relu")
