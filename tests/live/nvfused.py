"""The pattern of xFormers' components/nvfuser (0.0.13 to 0.0.21), in its words and
under its names.

A module wraps its function anew in every ``forward``, and runs it as it is where
the tensor is not on a GPU. ``EVERYWHERE`` leaves that test out, so that the
wrapping can be watched on a CPU.
"""

import functools
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from functorch.compile import memory_efficient_fusion

EVERYWHERE = bool(os.environ.get("EVERYWHERE"))


def _fused(x):
    return x.is_cuda or EVERYWHERE


def _bias_act_dropout(x, bias, activation, prob):
    y = activation(torch.add(x, bias) if bias is not None else x)
    return F.dropout(y, prob) if prob > 0.0 else y


class NVFusedBiasActivationDropout(nn.Module):
    def __init__(self, p, activation, bias_shape):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(bias_shape))
        self._fn_train = functools.partial(
            _bias_act_dropout, activation=activation, prob=p
        )
        self._fn_eval = functools.partial(
            _bias_act_dropout, activation=activation, prob=0.0
        )

    def forward(self, x):
        fn = self._fn_train if self.training else self._fn_eval
        if not _fused(x):
            return fn(x, self.bias)
        aot_fn = memory_efficient_fusion(fn)
        return aot_fn(x, self.bias)


def _bias_dropout_res(x, bias, residual, prob):
    a = torch.add(x, bias)
    return torch.add(F.dropout(a, prob) if prob > 0.0 else a, residual)


class NVFusedBiasDropoutRes(nn.Module):
    def __init__(self, p, bias_shape):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(bias_shape))
        self._fn_train = functools.partial(_bias_dropout_res, prob=p)
        self._fn_eval = functools.partial(_bias_dropout_res, prob=0.0)

    def forward(self, x, residual):
        fn = self._fn_train if self.training else self._fn_eval
        if not _fused(x):
            return fn(x, self.bias, residual)
        aot_fn = memory_efficient_fusion(fn)
        return aot_fn(x, self.bias, residual)


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.up = nn.Linear(width, width, bias=False)
        self.act = NVFusedBiasActivationDropout(0.0, nn.ReLU(), width)
        self.add = NVFusedBiasDropoutRes(0.0, width)

    def forward(self, x):
        return self.add(self.act(self.up(x)), x)


device = "cuda" if torch.cuda.is_available() else "cpu"
model = Block().to(device)
inputs = (torch.randn(8, 64, device=device, requires_grad=True),)
