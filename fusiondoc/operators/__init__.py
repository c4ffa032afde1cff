"""Queries on the table of operators: sets by kind, signs, in-place partners, flags
of modules.

Operators are given and returned as printed (``aten::add``) unless a docstring
states otherwise. A row added to ``table.py`` is in every set here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fusiondoc.operators.kinds import Gradient, Operator, OperatorKind
from fusiondoc.operators.table import OPERATORS

BY_NAME: Mapping[str, Operator] = {row.name: row for row in OPERATORS}


@cache
def of(kind: OperatorKind) -> frozenset[str]:
    """Return the operators that have any of the flags: ``of(OperatorKind.VIEW |
    OperatorKind.COPIES)``."""
    return frozenset(row.name for row in OPERATORS if row.kind & kind)


# -- elements -----------------------------------------------------------------------------------------------

ELEMENTWISE = of(OperatorKind.ELEMENTWISE)
"""Operators whose results are functions of single elements; for ``aten::max`` this
holds for the overload of two tensors."""

OF_EACH_ELEMENT = frozenset(
    row.short
    for row in OPERATORS
    if row.kind & OperatorKind.ELEMENTWISE
    and row.tensors == 1
    and not row.kind & (OperatorKind.CASTS | OperatorKind.RANDOM)
)
"""Names of functions and methods of one tensor that compute each element by itself;
``max`` of one tensor is not among them."""

MASKS = frozenset(row.short for row in OPERATORS if row.kind & OperatorKind.TRUTH)
"""Names of functions and methods whose result has truth values."""

OF_MANY_ELEMENTS = of(OperatorKind.REDUCES | OperatorKind.NORMALISES) - ELEMENTWISE
"""Operators whose results are never functions of single elements."""

NORMALISE = of(OperatorKind.NORMALISES)
"""Operators whose results have the sizes of their input, and depend on many
elements of it."""

NAMES_OF_REDUCTIONS = frozenset(
    row.short for row in OPERATORS if row.kind & OperatorKind.REDUCES
)
"""Names of functions and methods whose result without further arguments has no
dimensions."""

# -- elements moved, nothing computed -----------------------------------------------------------------------

VIEWS = of(OperatorKind.VIEW)
"""Operators that move no data: their result shares the memory of the input."""

MAY_COPY = of(OperatorKind.COPIES) & of(
    OperatorKind.VIEW | OperatorKind.HANDS_ON
) - of(OperatorKind.CASTS)
"""Operators that copy only if the memory of their input is in another order."""

HANDS_ON = of(OperatorKind.HANDS_ON)
"""Operators whose result may be their input itself: a cast to its own type, dropout
in inference."""

PERMUTATIONS = of(OperatorKind.PERMUTES)
TRANSPOSES = of(OperatorKind.TRANSPOSES)
"""Views with the dimensions in another order."""

_MOVES = (
    OperatorKind.RESHAPES
    | OperatorKind.TRANSPOSES
    | OperatorKind.PERMUTES
    | OperatorKind.SELECTS
    | OperatorKind.JOINS
    | OperatorKind.COPIES
)
PLACES_ELEMENTS = of(_MOVES) - of(OperatorKind.CASTS | OperatorKind.ASSIGNS)
"""Operators that compute nothing: an element-wise operator gives the same result
before and after them."""

SAME_ELEMENTS = VIEWS & of(OperatorKind.RESHAPES | OperatorKind.TRANSPOSES)
"""Views whose result has all elements of their input, each once."""

MAKERS = of(OperatorKind.MAKES)
"""Operators that make a tensor of given values: no node before them could be fused
with them."""

# -- kernels of a library, random numbers -------------------------------------------------------------------

LIBRARY = of(OperatorKind.LIBRARY)
"""Operators with library kernels, which a program should keep."""

RANDOM = of(OperatorKind.RANDOM)
"""Operators that draw random numbers: fused and unfused results differ by
design."""

CONTROL_FLOW = of(OperatorKind.CONTROL)

# -- gradients ----------------------------------------------------------------------------------------------

GRADIENTS: Mapping[str, Gradient] = {
    row.name: row.gradient for row in OPERATORS if row.gradient is not None
}

WITH_FORMULA = frozenset(
    op for op, gradient in GRADIENTS.items() if not gradient.kept_out
)
"""Operators that a differentiable graph can hold, for some of their overloads and
arguments."""

KEPT_OUT = frozenset(op for op, gradient in GRADIENTS.items() if gradient.kept_out)
"""Views that autodiff keeps out of differentiable graphs."""

# -- in place -----------------------------------------------------------------------------------------------

_DUNDERS = frozenset(
    f"__i{row.short[2:]}"
    for row in OPERATORS
    if row.in_place and row.short[:2] == "__"
)


@cache
def is_in_place(op: str) -> bool:
    """True if an operator changes its first argument, by its name: ``aten::add_``,
    ``mine::scale_`` and ``aten::__iand__`` do, ``aten::__and__`` does not.

    Args:
        op: as printed, or the name of a method or function.
    """
    name = op.rpartition(":")[2]
    return (name.endswith("_") and not name.endswith("__")) or name in _DUNDERS


def plain_name(op: str) -> str:
    """Return the name of the operator that makes a new tensor: ``aten::relu_`` and
    ``aten::relu`` -> "relu"."""
    name = op.rpartition(":")[2]
    if name in _DUNDERS:
        return f"__{name[3:]}"
    if name.startswith("__"):
        return name
    return name.rstrip("_")


def in_place_name(op: str) -> str:
    """Return the name of the in-place partner: ``aten::add`` -> "add_",
    ``aten::__and__`` -> "__iand__"."""
    name = op.rpartition(":")[2]
    if name.startswith("__"):
        return f"__i{name[2:]}"
    return f"{name}_"


SIGNS: Mapping[str, str] = {
    row.name: row.sign for row in OPERATORS if row.sign is not None
}
"""Operator -> the sign of the expression that makes it."""

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

WITH_PARTNER = frozenset(row.name for row in OPERATORS if row.in_place)
"""Operators that have an in-place partner."""


def sign_of(op: str) -> str | None:
    """Return the sign of the statement that makes an in-place operator: "+" for
    ``aten::add_``, which ``x += y`` makes (torch/_tensor.py; ``emitAugAssignment``
    of torch/csrc/jit/frontend/ir_emitter.cpp). A script makes ``aten::fmod_`` of
    ``x %= y``, but ``x % y`` is another function: it has no sign."""
    plain = f"aten::{plain_name(op)}"
    sign = SIGNS.get(plain) if is_in_place(op) and plain in WITH_PARTNER else None
    if sign in _COMPARISONS:
        return None
    return sign


IN_PLACE_ASSIGNS = of(OperatorKind.ASSIGNS)
"""Operators that TorchScript makes of ``x[...] = y``: no single operator without
the underscore does the same."""

FILLS: Mapping[str, str] = {
    row.name: row.instead for row in OPERATORS if row.instead is not None
}
"""Operators whose name without the underscore is no method of a tensor
(torch/_tensor_docs.py, 1.12 to 2.13) -> an expression that makes a filled
tensor."""

WITHOUT_PLAIN = frozenset(
    name
    for name in BY_NAME
    if is_in_place(name) and f"aten::{plain_name(name)}" not in WITH_PARTNER
)
"""In-place operators whose name without the underscore is no method of a tensor
(torch.Tensor, 2.13)."""

WITH_LISTS = frozenset(row.name for row in OPERATORS if row.lists)
OF_LISTS_TOO = WITH_LISTS | {
    f"aten::{in_place_name(op)}" for op in WITH_LISTS & WITH_PARTNER
}
"""Operators of tensors whose overloads for lists return a list."""


def defaults_of(function: str) -> tuple[str, ...]:
    """Return the last arguments of a function of torch, which may be left out."""
    row = BY_NAME.get(f"aten::{function}")
    if row is None:
        return ()
    return row.defaults


# -- the flag ``inplace`` -----------------------------------------------------------------------------------

WITH_FLAG = frozenset(
    f"aten::{in_place_name(row.name)}" for row in OPERATORS if row.flag is not None
)
"""Operators that modules of torch.nn call in place if ``inplace`` is set."""

_OF_FUNCTIONS = {
    function: row.flag
    for row in OPERATORS
    if row.flag is not None
    for function in row.functions or (row.short,)
}
_OF_MODULES = {
    module: index
    for row in OPERATORS
    for module, index in row.modules.items()
    if index is not None
}

FLAGS: Mapping[str, int] = {**_OF_FUNCTIONS, **_OF_MODULES}
"""Function of torch.nn.functional, or module of torch.nn -> index of ``inplace``
among the arguments of the function, or of the module's constructor, from 0."""

CALLED_BY: Mapping[str, tuple[str, ...]] = {
    name: tuple(row.modules)
    for row in OPERATORS
    if row.modules
    for name in (row.short, *row.functions)
}
"""Name of an operator or function -> the modules of torch.nn that call it."""
