"""A feed-forward block for torch.compile, with a test on values in the middle.

fusiondoc diagnose examples/compiled_block.py --fuser inductor --no-run
"""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, size: int = 128) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.inner = nn.Linear(size, 4 * size)
        self.outer = nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.gelu(self.inner(self.norm(x)))
        if h.abs().max() > 100:  # the graph breaks here
            h = h.clamp(-100, 100)
        return x + self.outer(h)


model = Block()
inputs = (torch.randn(32, 128),)
