"""Questions to the table of operators: sets by kind, signs, partners in place,
flags of modules.

Operators are given and returned as printed (``aten::add``) unless a docstring says
otherwise. Add a row to ``table.py`` and every set here holds the new operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from fusiondoc.operators.kinds import Gradient, Kind, Operator
from fusiondoc.operators.table import OPERATORS

BY_NAME: Mapping[str, Operator] = {row.name: row for row in OPERATORS}


@cache
def of(kind: Kind) -> frozenset[str]:
    """The operators that have any of the flags: ``of(Kind.VIEW | Kind.COPIES)``."""
    return frozenset(row.name for row in OPERATORS if row.kind & kind)


# -- elements -----------------------------------------------------------------------------------------------

ELEMENTWISE = of(Kind.ELEMENTWISE)
"""Operators whose results are functions of single elements; of ``aten::max`` that
of two tensors."""

OF_EACH_ELEMENT = frozenset(
    row.short
    for row in OPERATORS
    if row.kind & Kind.ELEMENTWISE
    and row.tensors == 1
    and not row.kind & (Kind.CASTS | Kind.RANDOM)
)
"""Names of functions and methods of one tensor that compute each element by itself;
``max`` of one tensor is none."""

MASKS = frozenset(row.short for row in OPERATORS if row.kind & Kind.TRUTH)
"""Names of functions and methods whose result is of truth values."""

OF_MANY_ELEMENTS = of(Kind.REDUCES | Kind.NORMALISES) - ELEMENTWISE
"""Operators whose results are never functions of single elements."""

NORMALISE = of(Kind.NORMALISES)
"""Operators whose results have the sizes of their input, and depend on many
elements of it."""

NAMES_OF_REDUCTIONS = frozenset(
    row.short for row in OPERATORS if row.kind & Kind.REDUCES
)
"""Names of functions and methods whose result without further arguments has no
dimensions."""

# -- elements moved, nothing computed -----------------------------------------------------------------------

VIEWS = of(Kind.VIEW)
"""Operators that move no data: their result shares the memory of the input."""

MAY_COPY = of(Kind.COPIES) & of(Kind.VIEW | Kind.HANDS_ON) - of(Kind.CASTS)
"""Operators that copy only where the memory of their input is in another order."""

HANDS_ON = of(Kind.HANDS_ON)
"""Operators whose result may be their input itself: a cast to its own type, dropout
in inference."""

PERMUTATIONS = of(Kind.PERMUTES)
TRANSPOSES = of(Kind.TRANSPOSES)
"""Views with the dimensions in another order."""

_MOVES = (
    Kind.RESHAPES
    | Kind.TRANSPOSES
    | Kind.PERMUTES
    | Kind.SELECTS
    | Kind.JOINS
    | Kind.COPIES
)
PLACES_ELEMENTS = of(_MOVES) - of(Kind.CASTS | Kind.ASSIGNS)
"""Operators that compute nothing: what works on each element by itself can be done
before them as well as after them, with the same result."""

SAME_ELEMENTS = VIEWS & of(Kind.RESHAPES | Kind.TRANSPOSES)
"""Views whose result has the elements of what they view, each once."""

MAKERS = of(Kind.MAKES)
"""Operators that make a tensor of given values: there is nothing before them to
fuse with."""

# -- kernels of a library, random numbers -------------------------------------------------------------------

LIBRARY = of(Kind.LIBRARY)
"""Operators with kernels of their own: no program is better without them."""

RANDOM = of(Kind.RANDOM)
"""Operators that draw random numbers: fused and unfused results differ by
design."""

CONTROL_FLOW = of(Kind.CONTROL)

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
    """Whether it changes its first argument, as its name says: ``aten::add_``,
    ``mine::scale_`` and ``aten::__iand__`` do, ``aten::__and__`` does not.

    Args:
        op: as printed, or the name of a method or function.
    """
    name = op.rpartition(":")[2]
    return (name.endswith("_") and not name.endswith("__")) or name in _DUNDERS


def plain_name(op: str) -> str:
    """The name of the operator that makes a new tensor: ``aten::relu_`` and
    ``aten::relu`` -> "relu"."""
    name = op.rpartition(":")[2]
    if name in _DUNDERS:
        return f"__{name[3:]}"
    return name if name.startswith("__") else name.rstrip("_")


def in_place_name(op: str) -> str:
    """The name of the partner in place: ``aten::add`` -> "add_", ``aten::__and__``
    -> "__iand__"."""
    name = op.rpartition(":")[2]
    return f"__i{name[2:]}" if name.startswith("__") else f"{name}_"


SIGNS: Mapping[str, str] = {
    row.name: row.sign for row in OPERATORS if row.sign is not None
}
"""Operator -> the sign of the expression that makes it."""

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

WITH_PARTNER = frozenset(row.name for row in OPERATORS if row.in_place)
"""Operators that have a partner in place."""


def sign_of(op: str) -> str | None:
    """The sign of the statement that an operator in place comes from: "+" of
    ``aten::add_``, which ``x += y`` makes (torch/_tensor.py; ``emitAugAssignment``
    of torch/csrc/jit/frontend/ir_emitter.cpp). A script makes ``aten::fmod_`` of
    ``x %= y``, and ``x % y`` is another function: it has no sign."""
    plain = f"aten::{plain_name(op)}"
    sign = SIGNS.get(plain) if is_in_place(op) and plain in WITH_PARTNER else None
    return None if sign in _COMPARISONS else sign


IN_PLACE_ASSIGNS = of(Kind.ASSIGNS)
"""Operators that TorchScript makes of ``x[...] = y``: none has a version without
the underscore that does the same alone."""

FILLS: Mapping[str, str] = {
    row.name: row.instead for row in OPERATORS if row.instead is not None
}
"""Operators whose name without the underscore is no method of a tensor
(torch/_tensor_docs.py, 1.12 to 2.13), and an expression that makes a filled
tensor."""

WITHOUT_PLAIN = frozenset(
    name
    for name in BY_NAME
    if is_in_place(name) and f"aten::{plain_name(name)}" not in WITH_PARTNER
)
"""Operators in place whose name without the underscore is no method of a tensor
(torch.Tensor, 2.13)."""

WITH_LISTS = frozenset(row.name for row in OPERATORS if row.lists)
OF_LISTS_TOO = WITH_LISTS | {
    f"aten::{in_place_name(op)}" for op in WITH_LISTS & WITH_PARTNER
}
"""Operators of tensors whose overloads for lists give a list."""


def defaults_of(function: str) -> tuple[str, ...]:
    """The last arguments of a function of torch, which may be left out."""
    row = BY_NAME.get(f"aten::{function}")
    return row.defaults if row is not None else ()


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
"""Function of torch.nn.functional, or module of torch.nn -> where ``inplace`` is
among the arguments of the function, or of the module's constructor, from 0."""

CALLED_BY: Mapping[str, tuple[str, ...]] = {
    name: tuple(row.modules)
    for row in OPERATORS
    if row.modules
    for name in (row.short, *row.functions)
}
"""Name of an operator or function -> the modules of torch.nn that call it."""
