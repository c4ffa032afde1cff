"""Keys of groups, kernels and reasons, equal in all runs of a survey, and the facts
of a run for each key."""

from __future__ import annotations

from typing import NamedTuple

from fusiondoc.model import dataclass


class GroupKey(NamedTuple):
    """Groups of several runs with an equal key are the same group."""

    model: str | None
    phase: str | None
    ops: tuple[str, ...]
    source_lines: tuple[str, ...]
    """``file:line`` of its operators."""


class KernelKey(NamedTuple):
    """Kernels of several runs with an equal key are the same kernel."""

    model: str | None
    gpu: str | None
    name: str
    """The name of its group, and its number in the group; its own name if it has no
    group."""


class ReasonKey(NamedTuple):
    """The reason's code, and the operator."""

    code: str
    op: str


NS = 1_000_000
"""Nanoseconds of a millisecond: sums of integers do not depend on their order."""


@dataclass(frozen=True)
class GroupFact:
    kind: str
    nodes: int
    fell_back: bool


@dataclass(frozen=True)
class ReasonFact:
    text: str
    nodes: int
    bytes: int
    ns: int
    keeps_out: int
