"""Parts that details of reasons share."""

from __future__ import annotations

from typing import Literal

from fusiondoc.model import dataclass
from fusiondoc.operators.kinds import FormulaOverload


@dataclass(frozen=True)
class OperatorAt:
    """An operator and its source position."""

    op: str
    source: str | None


@dataclass(frozen=True)
class Condition:
    """The value that a branch or loop depends on."""

    on: Literal[
        "argument",
        "training",
        "attribute",
        "test_for_none",
        "tensor_value",
        "shape_or_type",
        "unrolled_loop",
        "remainder_of_loop",
        "counted_loop",
        "loop",
        "unknown",
    ]
    """``unrolled_loop`` and ``remainder_of_loop`` are the two loops that torch
    makes of a loop that it unrolls; ``counted_loop`` has a number of steps, and
    torch did not unroll it."""
    attribute: str | None = None
    """The name of the module's attribute."""
    type: str | None = None
    """TorchScript type of that attribute."""
    steps: str | None = None
    """How many steps of the loop are unrolled into one, if that is known."""


@dataclass(frozen=True)
class FormulaGap:
    """Why torch's autodiff keeps an operator out of differentiable graphs
    (isDifferentiable of torch/csrc/jit/runtime/autodiff.cpp)."""

    why: Literal["control_flow", "in_place", "view", "no_formula", "overload"]
    """``overload``: another overload of the operator has a gradient formula."""
    overload: FormulaOverload | None = None
    """The overload that has no formula."""


Side = Literal["before", "after"]


@dataclass(frozen=True)
class RegionEnd:
    """An operator next to another that ends its differentiable graph."""

    operator: OperatorAt
    side: Side
    gap: FormulaGap


@dataclass(frozen=True)
class RegionDetour:
    """The obstacle that keeps two operators of one block out of one differentiable
    graph."""

    operator: OperatorAt
    by: Literal["result", "size", "write"]
    """``result``, ``size``: the operator takes the result of the first operator (or
    its size) and leads to the last; ``write``: it writes to an attribute or
    argument of the module between them."""
    first: str | None
    """The operator whose result it takes; None: the operator that the reason is
    about."""
    last: str | None


Container = Literal["out_of_container", "into_object"]
"""Tensors come out of a dict or list, or are stored in an attribute of an object:
torch tracks neither."""
