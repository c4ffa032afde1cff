"""Everything is in one group already: nothing is to be found."""

import torch


def model(x, y):
    return torch.tanh(x * y + 1.0) * torch.sigmoid(y)


inputs = (torch.randn(64, 64), torch.randn(64, 64))
