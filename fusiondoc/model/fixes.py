"""What ``fusiondoc fix`` tried, as ``fusiondoc.fix/1`` has it: versions of a program in numbers, and what
became of each change."""

from __future__ import annotations

from enum import Enum
from typing import Mapping

from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.quick_dataclass import dataclass, field

SCHEMA = "fusiondoc.fix/1"

MOST_TRIES = 24
"""Runs of changed programs, unless ``--tries`` says otherwise."""


class Outcome(Enum):
    """What became of a change; the value says it."""

    KEPT = "kept"
    NO_GAIN = "fuses no more"
    WRONG = "computes something else"
    SLOWER = "slower"
    FAILED = "fails"


@dataclass(frozen=True)
class Version:
    """What a version of the program came to. Counts are sums over instances."""

    groups: int
    ops_fused: int
    launches: int
    """Fusion groups and operators outside groups in the forward pass: about as many kernels run. Where
    nothing is fused in training, no plan has the backward pass, so that is not counted on either side."""
    fallbacks: int
    wrong: tuple[str, ...] = ()
    """Results that the unchanged program does not have, by name; and those where the fuser is wrong."""
    random: tuple[str, ...] = ()
    """Random operators that drew numbers."""
    by_statistics: bool = False
    """Fused results were held against eager ones by statistics, since both draw random numbers."""
    allowed: float | None = None
    """How far results may be off relative to their size, where roundings alone move them further than the
    usual tolerances allow."""
    problem: str | None = None
    """Why it failed."""
    timeable: str | None = field(default=None, metadata={"json": False})
    """The fuser to time it under; None where a time would say nothing."""
    outside: int = 0
    """Operators outside groups that ran, forward and backward."""
    unfused: frozenset[str] = field(default=frozenset(), metadata={"json": False})
    """Operators outside groups that ran."""
    interpreted: bool = False
    """NNC ran through its own evaluator, of which the speed says nothing."""

    def better_than(self, other: Version, fewer: bool = False) -> bool:
        """Whether more is fused: fewer kernels run, or as few of which groups hold more operators.

        Args:
            fewer: operators were replaced by several, so that more operators in groups alone is no gain.
        """
        if self.fallbacks > other.fallbacks:
            return False
        if self.launches != other.launches:
            return self.launches < other.launches
        return not fewer and self.ops_fused > other.ops_fused


@dataclass(frozen=True)
class TriedFix:
    """A change, on top of those kept before it."""

    kind: ChangeKind
    """Of the first, where several lines are changed together."""
    change: str
    """In the words of the program."""
    where: tuple[str, ...]
    """``file:line`` of what changes."""
    notes: tuple[str, ...]
    """What has to hold, or what else is to be known."""
    outcome: Outcome
    before: Version
    after: Version
    speed: Ratio | None = None
    """Of the program with it and all that was kept before it, against the unchanged one; None where
    it was not timed."""


@dataclass(frozen=True)
class Fixes:
    """All of it."""

    target: str
    unchanged: Version
    together: Version
    """With everything that was kept."""
    tried: tuple[TriedFix, ...]
    diff: str
    """Unified, of the user's files."""
    described: tuple[str, ...] = ()
    """What could be changed and is not: lines of packages, files that cannot be read."""
    speed: Ratio | None = None
    """Of everything kept, against the unchanged program."""
    untried: int = 0
    """Changes beyond the limit of tries."""
    interrupted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the unchanged program: versions, the GPU."""
    fuser: str | None = None
    """What fused in it."""
    schema: str = SCHEMA

    @property
    def kept(self) -> tuple[TriedFix, ...]:
        return tuple(one for one in self.tried if one.outcome is Outcome.KEPT)


@dataclass(frozen=True)
class KeptResults:
    """What the program computes without a fuser: kept in ``file``, or held against it (``fix``)."""

    file: str
    compare: bool
