"""Two residual blocks as they are often written: two habits keep everything of theirs from being fused.

    fusiondoc diagnose examples/residual_block.py --backward

The first lines of the report say what to change: the line with `+=` and the module with `inplace=True`.
"""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x))
        y += x  # the shortcut
        return self.relu(y)


model = nn.Sequential(Block(8), Block(8)).to(device)
inputs = (torch.randn(2, 8, 16, 16, device=device),)
