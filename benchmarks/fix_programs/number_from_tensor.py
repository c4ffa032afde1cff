"""A scale that is read to the host in the middle: the region ends there; inference."""

import torch


def model(x, scale):
    y = torch.tanh(x) + 1.0
    y = y * scale.item()
    return torch.sigmoid(y) * x


inputs = (torch.randn(64, 64), torch.tensor(0.5))
