"""Reasons of runs with gradients: no differentiable graph of torch holds the
operator."""

from __future__ import annotations

from typing import Literal

from fusiondoc.model import dataclass, field
from fusiondoc.model.reasons.parts import (
    Container,
    FormulaGap,
    OperatorAt,
    RegionDetour,
    RegionEnd,
)


@dataclass(frozen=True)
class OutOfRegion:
    """With gradients only differentiable graphs are fused, and none takes the
    operator."""

    kind: Literal["out_of_region"] = field(default="out_of_region", init=False)
    recorded: bool
    """True if gradients are known to be recorded; else no fusion pass looked at its
    graph."""
    gap: FormulaGap
    cuts: bool = False
    """One differentiable graph ends before it and another begins after it."""


@dataclass(frozen=True)
class AloneInRegion:
    """It would be alone in its differentiable graph."""

    kind: Literal["alone_in_region"] = field(default="alone_in_region", init=False)
    recorded: bool
    ends: tuple[RegionEnd, ...] = ()
    """The operators that end it, at most two; the one that is easiest to change
    comes first."""
    detour: RegionDetour | None = None
    container: Container | None = None
    in_part: bool = False


@dataclass(frozen=True)
class SmallRegion:
    """The differentiable graph around it has too few nodes
    (autodiffSubgraphInlineThreshold)."""

    kind: Literal["small_region"] = field(default="small_region", init=False)
    recorded: bool
    nodes: int
    fewest: int
    in_part: bool = False


@dataclass(frozen=True)
class DissolvedRegion:
    """Torch dissolved the differentiable graph around it
    (guardDifferentiableGraph)."""

    kind: Literal["dissolved_region"] = field(
        default="dissolved_region", init=False
    )
    recorded: bool
    operators: int
    why: Literal[
        "nothing_profiled",
        "lost_at_border",
        "not_profiled",
        "shares_memory",
        "not_shown",
    ]
    operator: OperatorAt | None = None
    """The operator that reads the value without a type, or whose result shares
    memory with its input."""
    maker: OperatorAt | None = None
    """The operator that makes that value."""
    in_part: bool = False
