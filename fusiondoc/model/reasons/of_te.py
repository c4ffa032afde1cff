"""Reasons of the operation fuser of Transformer Engine."""

from __future__ import annotations

from typing import Literal

from fusiondoc.model import dataclass, field
from fusiondoc.model.reasons.parts import Side


@dataclass(frozen=True)
class UnmetCondition:
    """A condition of a rule of Transformer Engine that does not hold."""

    rule: str
    """The class of the fused operator."""
    condition: str
    """Its name in ``CONDITIONS_IN_WORDS`` of fusers/te/rules.py."""
    neighbour: str | None = None
    """For ``neighbour_taken``: the operator that is part of another fused
    operator."""
    taken_by: str | None = None
    own_fusion: bool = False
    """``taken_by`` is a fusion that the program registered."""


@dataclass(frozen=True)
class UnmetConditions:
    """All operators of a rule of Transformer Engine are there, and a condition of
    it does not hold."""

    kind: Literal["unmet_conditions"] = field(
        default="unmet_conditions", init=False
    )
    conditions: tuple[UnmetCondition, ...]
    fused_under: tuple[str, ...] = ()
    """Recipes of the same run under which it is fused."""


@dataclass(frozen=True)
class MissingSide:
    """Operators that a rule needs on one side, and the operator that is there."""

    slots: tuple[str, ...]
    """In order; an optional one in brackets."""
    side: Side
    found: str | None


@dataclass(frozen=True)
class MissingNeighbours:
    """Operators that a rule needs next to it."""

    rule: str
    sides: tuple[MissingSide, ...]


@dataclass(frozen=True)
class NotInPattern:
    """It is not part of the pattern of any rule of Transformer Engine."""

    kind: Literal["not_in_pattern"] = field(default="not_in_pattern", init=False)
    why: Literal["neighbours", "called_alone", "newer_rule", "no_rule"]
    neighbours: tuple[MissingNeighbours, ...] = ()
    rule: str | None = None
    """For ``newer_rule``: the class of the fused operator."""
    since: str | None = None
    """For ``newer_rule``: the first version of Transformer Engine with the rule."""
