from typing import NamedTuple

import torch
from torch import Tensor, nn


class State(NamedTuple):
    m: Tensor
    v: Tensor


class Model(nn.Module):
    def forward(self, x: Tensor, m: Tensor, v: Tensor) -> Tensor:
        state = State(m, v)
        state.m.mul_(0.9).add_(x)
        w = state.v
        w += state.m
        return torch.tanh(w)


torch.manual_seed(0)
model = Model()
inputs = (torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5, torch.rand(8, 16) + 0.5)
