"""Words that graphs after the post-grad passes give to operators as arguments: approximations, roundings and
ways to reduce (schemas of ``aten``), operators behind a product (``mkldnn``), kinds of random numbers."""

from __future__ import annotations

_REDUCTIONS = ("mean", "sum", "amax", "amin", "prod", "max")
_OF_ONEDNN = ("relu", "gelu", "silu", "sigmoid", "tanh", "add", "mul", "hardtanh", "leaky_relu", "swish")

ARGUMENT_WORDS = frozenset(
    ("", "none", "floor", "trunc", "rand", "randn", "linear", *_REDUCTIONS, *_OF_ONEDNN)
)
