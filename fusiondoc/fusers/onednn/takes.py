"""oneDNN Graph: the operators that it takes on the CPU, and the primitives that
compute them.

Source: torch/csrc/jit/codegen/onednn/graph_helper.cpp, compared with runs on
2.13.0.

To add an operator, add its name to ``_NAMES``.
"""

from __future__ import annotations

from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.taken_operators import TakenOperators

_NAMES = """
abs add addmm avg_pool2d batch_norm bmm cat clamp contiguous conv2d _convolution convolution div elu exp
gelu hardswish hardtanh layer_norm leaky_relu linear log _log_softmax matmul max_pool2d
max_pool2d_with_indices mm mul permute relu relu6 round sigmoid _softmax softmax sqrt square tanh
prim::ListConstruct
"""

TAKES = frozenset(
    name if "::" in name else f"aten::{name}" for name in _NAMES.split()
)
"""Operators as printed."""

OPERATORS = TakenOperators(takes=TAKES, one_library_call=True)

LIMITS = FuserLimits(
    since=(1, 12),
    where="torch 1.12 or newer for x86-64",
    devices=frozenset(("cpu",)),
    in_training=False,
    frozen_only=True,
    partitions=True,
    exact_sizes=True,  # seen with a dynamic fusion strategy on torch 2.13
)

PRIMITIVES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("conv", ("convolution", "deconvolution")),
    ("linear", ("matmul", "inner_product")),
    ("matmul", ("matmul", "inner_product")),
    ("addmm", ("matmul", "inner_product")),
    ("bmm", ("matmul",)),
    ("softmax", ("softmax", "softmax_v2")),
    ("layer_norm", ("layer_normalization", "layer_normalization_v2")),
    ("batch_norm", ("batch_normalization", "batch_normalization_v2")),
    ("pool", ("pooling", "pooling_v2")),
    ("prelu", ("prelu",)),
    ("cat", ("concat",)),
    ("mean", ("reduction",)),
    ("sum", ("reduction", "sum")),
)
"""Part of an operator's name -> the primitives that compute it; all others are
eltwise or binary ones."""

ELEMENTWISE_PRIMITIVES = (
    "eltwise",
    "eltwise_v2",
    "binary",
    "sum",
    "shuffle",
    "resampling",
)
"""Primitives that may compute any operator."""
