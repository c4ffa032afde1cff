"""Reasons in the surroundings of an operator: possible fusion partners are missing
or out of reach."""

from __future__ import annotations

from typing import Literal

from fusiondoc.model import dataclass, field
from fusiondoc.model.reasons.of_operator import NewerRule, Refusal
from fusiondoc.model.reasons.parts import Condition, Container, OperatorAt


@dataclass(frozen=True)
class NewerNeighbour:
    """All its possible fusion partners have a rule only in later versions."""

    kind: Literal["newer_neighbour"] = field(default="newer_neighbour", init=False)
    op: str
    rule: NewerRule


WhyBarrier = Literal[
    "in_place", "control_flow", "region", "refused", "view", "some_cases", "no_rule"
]
"""``region``: it has an executor of its own; ``refused``: the fuser does not take
it here; ``some_cases``: the fuser takes it in some cases."""


@dataclass(frozen=True)
class Barrier:
    """An operator that is not fused stands between it and a possible fusion
    partner."""

    kind: Literal["barrier"] = field(default="barrier", init=False)
    operator: OperatorAt
    why: WhyBarrier
    fuser: str | None
    partner: str
    """The nearest operator, or fusion group, that it could be fused with."""
    alone: bool
    """Only the barrier stands between the two."""
    condition: Condition | None = None
    refusal: Refusal | None = None
    in_part: bool = False
    """True if only the first of very many nodes around it were examined."""


@dataclass(frozen=True)
class BehindViews:
    """Views that the fuser takes stand between it and a possible fusion partner."""

    kind: Literal["behind_views"] = field(default="behind_views", init=False)
    views: tuple[OperatorAt, ...]
    """At most two."""
    partner: str
    rule: NewerRule | None
    in_part: bool = False


@dataclass(frozen=True)
class OtherBlock:
    """A possible fusion partner is on the other side of a block of control flow."""

    kind: Literal["other_block"] = field(default="other_block", init=False)
    partner: str | None
    control: OperatorAt | None
    in_part: bool = False


@dataclass(frozen=True)
class Alone:
    """Nothing next to it can be fused with it."""

    kind: Literal["alone"] = field(default="alone", init=False)
    before: tuple[str, ...] = ()
    """Operators that feed it."""
    after: tuple[str, ...] = ()
    """Operators that take its result."""
    container: Container | None = None
    in_part: bool = False


@dataclass(frozen=True)
class EndedInPlace:
    """An in-place operator after its differentiable graph takes its result, so that
    the operator is alone there."""

    kind: Literal["ended_in_place"] = field(default="ended_in_place", init=False)
    operator: OperatorAt
    in_part: bool = False


@dataclass(frozen=True)
class DecidesBetween:
    """Control flow reads its result before the operator with which it would be
    fused."""

    kind: Literal["decides_between"] = field(default="decides_between", init=False)
    control: OperatorAt
    condition: Condition | None
    partner: str


@dataclass(frozen=True)
class Detour:
    """A second path leads from one operator to the other through an operator that
    is not fused: fused, the two would wait for each other."""

    kind: Literal["detour"] = field(default="detour", init=False)
    by: Literal["property", "number", "takes", "on_the_way"]
    """The dtype, device or layout of its result is read; a number is computed from
    its result or size; an operator takes the result of the first and leads to the
    last, or is a later node on such a path."""
    first: str | None
    """The operator or fusion group at which both paths begin; None: the operator
    that the reason is about."""
    last: str | None
    operator: OperatorAt | None = None
    """The operator on the second path."""
    of_size: bool = False
    """The operator takes a number computed from the size of the result, not the
    result."""
    property: str | None = None
    """``dtype``, ``device`` or ``layout``."""
    taker: str | None = None
    """The operator in the group that takes the property."""


@dataclass(frozen=True)
class SideEffect:
    """A node past which torch moves nothing stands between it and its partner
    (hasSideEffects of torch/csrc/jit/ir/ir.cpp)."""

    kind: Literal["side_effect"] = field(default="side_effect", init=False)
    operator: OperatorAt
    partner: str


@dataclass(frozen=True)
class WriteBetween:
    """An operator between it and its partner changes a tensor in place, or waits
    for another task."""

    kind: Literal["write_between"] = field(default="write_between", init=False)
    operator: OperatorAt
    partner: str
