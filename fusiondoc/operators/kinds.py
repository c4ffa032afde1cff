"""The columns of the table of operators (its rows: ``table.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, Flag
from typing import Literal, NamedTuple


class OperatorKind(Flag):
    """The effect of an operator on its tensors; several flags if its overloads
    differ, or if the effect depends on its arguments."""

    NONE = 0
    ELEMENTWISE = 1
    """Each element of the result is computed from the elements at the same index,
    after broadcasting."""
    REDUCES = 2
    """Elements of the result are computed from many elements."""
    NORMALISES = 4
    """As many elements as before, each computed from many."""
    VIEW = 8
    """The result shares the memory of the input: nothing is moved."""
    RESHAPES = 16
    """All elements in the same order, in other sizes."""
    TRANSPOSES = 32
    """All elements, with the dimensions in another order."""
    PERMUTES = 64
    """All elements, each at another index along a dimension."""
    SELECTS = 128
    """Some of the elements, or some of them more than once."""
    JOINS = 256
    """All elements of several tensors."""
    COPIES = 512
    """The elements as they are, in new memory."""
    CASTS = 1024
    """The elements in another dtype."""
    HANDS_ON = 2048
    """Returns the input itself if there is nothing to do."""
    LIBRARY = 4096
    """Has library kernels (cuBLAS, cuDNN, ATen, random numbers), which a program
    should keep; fusers take it, if at all, only with some arguments."""
    MATMUL = 8192
    """Is a matrix product, or attention."""
    RANDOM = 16384
    """Draws random numbers: two runs differ by design."""
    MAKES = 32768
    """Makes a tensor of given values: nothing before it can be fused with it."""
    ASSIGNS = 65536
    """Made by TorchScript from ``x[...] = y``."""
    CONTROL = 131072
    """Branch or loop: the interpreter's work, without a kernel."""
    TRUTH = 262144
    """The result has truth values, whatever the element type of its inputs."""


NONE = OperatorKind.NONE
ELEMENTWISE, REDUCES, NORMALISES = (
    OperatorKind.ELEMENTWISE,
    OperatorKind.REDUCES,
    OperatorKind.NORMALISES,
)
VIEW, RESHAPES, TRANSPOSES, PERMUTES = (
    OperatorKind.VIEW,
    OperatorKind.RESHAPES,
    OperatorKind.TRANSPOSES,
    OperatorKind.PERMUTES,
)
SELECTS, JOINS, COPIES, CASTS, HANDS_ON = (
    OperatorKind.SELECTS,
    OperatorKind.JOINS,
    OperatorKind.COPIES,
    OperatorKind.CASTS,
    OperatorKind.HANDS_ON,
)
LIBRARY, MATMUL, RANDOM, MAKES = (
    OperatorKind.LIBRARY,
    OperatorKind.MATMUL,
    OperatorKind.RANDOM,
    OperatorKind.MAKES,
)
ASSIGNS, CONTROL, TRUTH = (
    OperatorKind.ASSIGNS,
    OperatorKind.CONTROL,
    OperatorKind.TRUTH,
)


FormulaOverload = Literal["two_tensors", "number", "arguments"]
"""An overload without a gradient formula: of two tensors, with a number, or with
any of these arguments."""


class Gradient(NamedTuple):
    """How TorchScript's autodiff handles an operator that it knows."""

    arguments: str = ".*"
    """Regular expression for the arguments of the overload that has a formula, a
    letter for each kind, as in the rules of fusers for overloads."""
    without: FormulaOverload | None = None
    """The overload without a formula; None: all overloads have it."""
    only_forward: bool = False
    """True if its formula holds the operator in the forward part, and no formula
    holds it in a backward part."""
    kept_out: bool = False
    """True for a view that autodiff keeps out of differentiable graphs, because its
    gradient as an output of one would be wrong."""
    not_where: tuple[int, str] | None = None
    """An argument, from 0, and the constant as printed with which the operator has
    no formula."""


FORMULA, IN_SCRIPT, KEPT_OUT = (
    Gradient(),
    Gradient(only_forward=True),
    Gradient(kept_out=True),
)


class Fit(Enum):
    """The shape or type that a made-up argument must fit, if it has no fixed
    value."""

    POSITIVE = "negative numbers or zero would make the result NaN or infinite; a variance, too"
    SIZES = "the sizes of the result"
    LAST_SIZE = "the last size of the result"


POSITIVE, SIZES = Fit.POSITIVE, Fit.SIZES
FLOAT = 6
"""torch.float32 (c10/core/ScalarType.h)."""

OF_BATCH_NORM: Mapping[int, object] = {4: POSITIVE, 5: True, 6: 0.1, 7: 1e-05}
OF_LAYER_NORM: Mapping[int, object] = {1: Fit.LAST_SIZE, 4: 1e-05}
OF_DROPOUT: Mapping[int, object] = {1: 0.5, 2: True}


class Operator(NamedTuple):
    """A row of the table."""

    short: str
    """The name as printed, without ``aten::``."""
    kind: OperatorKind
    tensors: int | None = 1
    """The most tensors that an overload takes, optional ones included, ``out``
    excluded: one, unless the row differs; None if it takes a list of tensors, or if
    the operator has no schema."""
    sign: str | None = None
    """Its sign in Python and TorchScript: "+" for ``x + y``."""
    gradient: Gradient | None = None
    """None: autodiff has no formula."""
    in_place: bool = False
    """True if there is a partner that does the same to its first argument: ``add_``
    for ``add``."""
    flag: int | None = None
    """Index of ``inplace`` among the arguments of the functions of
    torch.nn.functional that call it."""
    functions: tuple[str, ...] = ()
    """Those functions, if their names differ from the operator's."""
    modules: Mapping[str, int | None] = {}
    """Modules of torch.nn that call it, and the index of ``inplace`` in their
    constructor if it has one."""
    instead: str | None = None
    """For an operator that exists only in place: an expression that makes such a
    tensor."""
    defaults: tuple[str, ...] = ()
    """The last arguments of its function in torch, which may be left out
    (torch/nn/functional.py, torch/_torch_docs.py); only for operators that a recipe
    replaces."""
    lists: bool = False
    """True if an overload of it, and of its in-place partner, takes a list and
    returns one: ``out += [x]``. The overloads for tensors return none
    (torch/csrc/jit/runtime/register_prim_ops.cpp)."""
    samples: Mapping[int, object] = {}
    """Index of an argument -> a value for running the operator where a log does not
    hold the argument, or the condition that the value must fit. Other arguments
    accept any tensor or number."""

    @property
    def name(self) -> str:
        """As printed: ``aten::add``."""
        if "::" in self.short:
            return self.short
        return f"aten::{self.short}"
