"""Convolution, batch norm and relu in eval mode: frozen, the norm is part of the convolution; inference."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(8, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Conv2d(16, 8, 3),
    nn.BatchNorm2d(8),
    nn.ReLU(),
)
model.eval()
inputs = (torch.randn(4, 8, 16, 16),)
