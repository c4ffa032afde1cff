"""Scores that a mask fills with a number: masked_fill has no rule; inference."""

import torch


def model(scores, mask):
    scores = scores * 0.125 + 1.0
    scores = scores.masked_fill(mask == 0, -1e9)
    return torch.exp(torch.tanh(scores)) * 2.0


inputs = (torch.randn(64, 64), torch.ones(64, 64))
