"""oneDNN Graph: the operators that it takes on the CPU, and the primitives that
compute them.

Source: torch/csrc/jit/codegen/onednn/graph_helper.cpp, compared with runs on
2.13.0.

To add an operator, add its row to ``TAKES``.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.taken_operators import TakenOperators

_NO_OTHER: tuple[str, ...] = ()
_PRODUCT = ("matmul", "inner_product")
_CONVOLUTION = ("convolution", "deconvolution")
_POOLING = ("pooling", "pooling_v2")
_SOFTMAX = ("softmax", "softmax_v2")

TAKES: Mapping[str, tuple[str, ...]] = {
    "aten::abs": _NO_OTHER,
    "aten::add": _NO_OTHER,
    "aten::addmm": _PRODUCT,
    "aten::avg_pool2d": _POOLING,
    "aten::batch_norm": ("batch_normalization", "batch_normalization_v2"),
    "aten::bmm": ("matmul",),
    "aten::cat": ("concat",),
    "aten::clamp": _NO_OTHER,
    "aten::contiguous": _NO_OTHER,
    "aten::conv2d": _CONVOLUTION,
    "aten::_convolution": _CONVOLUTION,
    "aten::convolution": _CONVOLUTION,
    "aten::div": _NO_OTHER,
    "aten::elu": _NO_OTHER,
    "aten::exp": _NO_OTHER,
    "aten::gelu": _NO_OTHER,
    "aten::hardswish": _NO_OTHER,
    "aten::hardtanh": _NO_OTHER,
    "aten::layer_norm": ("layer_normalization", "layer_normalization_v2"),
    "aten::leaky_relu": _NO_OTHER,
    "aten::linear": _PRODUCT,
    "aten::log": _NO_OTHER,
    "aten::_log_softmax": _SOFTMAX,
    "aten::matmul": _PRODUCT,
    "aten::max_pool2d": _POOLING,
    "aten::max_pool2d_with_indices": _POOLING,
    "aten::mm": _PRODUCT,
    "aten::mul": _NO_OTHER,
    "aten::permute": _NO_OTHER,
    "aten::relu": _NO_OTHER,
    "aten::relu6": _NO_OTHER,
    "aten::round": _NO_OTHER,
    "aten::sigmoid": _NO_OTHER,
    "aten::_softmax": _SOFTMAX,
    "aten::softmax": _SOFTMAX,
    "aten::sqrt": _NO_OTHER,
    "aten::square": _NO_OTHER,
    "aten::tanh": _NO_OTHER,
    "prim::ListConstruct": _NO_OTHER,
}
"""Operator as printed -> the primitives that compute it, beside those of
``FOR_ANY_OPERATOR``."""

FOR_ANY_OPERATOR = (
    "eltwise",
    "eltwise_v2",
    "binary",
    "sum",
    "shuffle",
    "resampling",
)
"""Primitives that may compute any operator."""

OPERATORS = TakenOperators(takes=frozenset(TAKES), one_library_call=True)

LIMITS = FuserLimits(
    since=(1, 12),
    where="torch 1.12 or newer for x86-64",
    devices=frozenset(("cpu",)),
    in_training=False,
    frozen_only=True,
    partitions=True,
    exact_sizes=True,  # seen with a dynamic fusion strategy on torch 2.13
)
