"""Mean and deviation of everything, without dimensions; inference."""

import torch


def model(x):
    y = torch.tanh(x * 2.0)
    z = (y - y.mean()) / (y.std() + 1e-5)
    return z * torch.sigmoid(x) + y.sum()


inputs = (torch.randn(64, 64),)
