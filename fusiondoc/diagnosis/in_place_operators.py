"""Operators that change their input: which they are, what makes them, and what is written instead."""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping, NamedTuple

_DUNDERS = frozenset(f"__i{name}__" for name in ("and", "or", "xor", "lshift", "rshift"))


@lru_cache(maxsize=None)
def is_in_place(op: str) -> bool:
    """Whether it changes its first argument, as its name says: ``aten::add_``, ``mine::scale_`` and
    ``aten::__iand__`` do, ``aten::__and__`` does not.

    Args:
        op: as printed, or the name of a method or function.
    """
    name = op.rpartition(":")[2]
    return (name.endswith("_") and not name.endswith("__")) or name in _DUNDERS


def plain_name(op: str) -> str:
    """The name of the operator that makes a new tensor: ``aten::relu_`` and ``aten::relu`` -> "relu"."""
    name = op.rpartition(":")[2]
    return f"__{name[3:]}" if name in _DUNDERS else name if name.startswith("__") else name.rstrip("_")


SIGNS: Mapping[str, str] = {
    "add_": "+",
    "sub_": "-",
    "mul_": "*",
    "div_": "/",
    "pow_": "**",
    "bitwise_and_": "&",
    "bitwise_or_": "|",
    "bitwise_xor_": "^",
    "__iand__": "&",
    "__ior__": "|",
    "__ixor__": "^",
    "__ilshift__": "<<",
    "__irshift__": ">>",
}
"""Operator -> the sign of the statement that makes it: ``x += y`` (torch/_tensor.py;
torch/csrc/jit/frontend/ir_emitter.cpp, ``emitAugAssignment``)."""


def sign_of(op: str) -> str | None:
    """ "+" of ``aten::add_``, which ``x += y`` makes."""
    return SIGNS.get(op.rpartition(":")[2])


class Flag(NamedTuple):
    """Where ``inplace`` stands among the arguments, from 0."""

    of_function: int | None
    """Of the function of torch.nn.functional with the operator's name; None where there is none."""
    modules: Mapping[str, int]
    """Modules of torch.nn that call it -> of their constructor."""


FLAGS: Mapping[str, Flag] = {
    "relu": Flag(1, {"ReLU": 0}),
    "relu6": Flag(1, {"ReLU6": 0}),
    "hardtanh": Flag(3, {"Hardtanh": 2, "ReLU6": 0}),
    "hardswish": Flag(1, {"Hardswish": 0}),
    "hardsigmoid": Flag(1, {"Hardsigmoid": 0}),
    "silu": Flag(1, {"SiLU": 0}),
    "mish": Flag(1, {"Mish": 0}),
    "elu": Flag(2, {"ELU": 1}),
    "selu": Flag(1, {"SELU": 0}),
    "celu": Flag(2, {"CELU": 1}),
    "leaky_relu": Flag(2, {"LeakyReLU": 1}),
    "threshold": Flag(3, {"Threshold": 2}),
    "rrelu": Flag(4, {"RReLU": 2}),
    "dropout": Flag(3, {"Dropout": 1}),
    "dropout1d": Flag(3, {"Dropout1d": 1}),
    "dropout2d": Flag(3, {"Dropout2d": 1}),
    "dropout3d": Flag(3, {"Dropout3d": 1}),
    "alpha_dropout": Flag(3, {"AlphaDropout": 1}),
    "feature_alpha_dropout": Flag(3, {"FeatureAlphaDropout": 1}),
}
"""Operator (or function) -> where its flag ``inplace`` is (torch/nn/functional.py,
torch/nn/modules/activation.py and dropout.py, 1.12 to 2.13)."""

CALLED_BY: Mapping[str, tuple[str, ...]] = {
    **{name: tuple(flag.modules) for name, flag in FLAGS.items()},
    "gelu": ("GELU",),
    "softplus": ("Softplus",),
}
"""Operator -> the modules of torch.nn that call it."""

MODULE_FLAGS: Mapping[str, int] = {name: at for flag in FLAGS.values() for name, at in flag.modules.items()}
"""Module of torch.nn -> where ``inplace`` is among the arguments of its constructor."""

WITH_FLAG = frozenset(f"aten::{name}_" for name in FLAGS)
"""Operators that modules of torch.nn call in place if ``inplace`` is set."""

IN_PLACE_ASSIGNS = frozenset(f"aten::{name}_" for name in ("copy", "index_put", "masked_scatter", "scatter"))
"""What ``x[...] = y`` is, and what has no version without the underscore that does the same alone."""

FILLS: Mapping[str, str] = {
    "aten::fill_": "torch.full_like(x, value)",
    "aten::zero_": "torch.zeros_like(x)",
    "aten::normal_": "torch.randn_like(x)",
    "aten::uniform_": "torch.rand_like(x)",
}
"""Operators whose name without the underscore is no method of a tensor (torch/_tensor_docs.py, 1.12 to 2.13),
and what makes a filled one."""

ALL_OUT_OF_PLACE = """\
# or from outside, before torch.jit.script: a scripted module refuses it
for module in model.modules():
    if hasattr(module, "inplace"):
        module.inplace = False"""
"""For modules that a package makes. Set on a scripted module it is a RuntimeError, "Can't set constant"
(torch 2.13)."""
