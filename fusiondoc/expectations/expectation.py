"""What a file of expectations holds, after reading. Every part knows its place in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Tuple, Union

Path = Tuple[Union[str, int], ...]
"""Keys and indices from the top of the file: ``("sections", 0, "groups", 2)``."""


@dataclass(frozen=True)
class Position:
    """A place in the file, both from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Count:
    """How many there must be; None is no bound."""

    at_least: int | None = None
    at_most: int | None = None

    def holds(self, number: int) -> bool:
        return (self.at_least is None or number >= self.at_least) and (
            self.at_most is None or number <= self.at_most
        )

    def __str__(self) -> str:
        if self.at_least == self.at_most:
            return str(self.at_least)
        parts = [f"at least {self.at_least}"] if self.at_least is not None else []
        parts += [f"at most {self.at_most}"] if self.at_most is not None else []
        return " and ".join(parts)


@dataclass(frozen=True)
class SourceRange:
    """A file, or lines of it: ``model.py``, ``model.py:31``, ``model.py:18-20``."""

    file: str
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None:
            return self.file
        return f"{self.file}:{self.first}" + (f"-{self.last}" if self.last != self.first else "")


@dataclass(frozen=True)
class Speed:
    """What kernels must reach. Both are lowered by ``tolerance``, a share from 0 to 1."""

    peak: float | None = None
    """Share of the device's memory bandwidth, from 0 to 1."""
    gb_per_s: float | None = None
    tolerance: float = 0.0


@dataclass(frozen=True)
class GroupExpectation:
    """A fusion group that must be there, or must not.

    ``order`` says how ``ops`` are meant: "sequence" (the whole body in this order), "set" (these operators
    and no others, in any order and number) or "contains" (these in this order, others between them).
    """

    ops: tuple[str, ...] = ()
    order: str = "sequence"
    count: Count = Count(at_least=1)
    phase: str | None = None
    source: tuple[SourceRange, ...] = ()
    function: str | None = None
    module: str | None = None
    layer: tuple[str, ...] = ()
    """Patterns of module paths (see layer_patterns.py); the instances in one of them count."""
    dtype: tuple[str, ...] = ()
    speed: Speed = Speed()
    at: Position | None = None
    path: Path = ()


@dataclass(frozen=True)
class Findings:
    """Codes, severities or families (``FD3xx``) of findings."""

    expect: tuple[str, ...] = ()
    """Each must occur."""
    forbid: tuple[str, ...] = ()
    """None may occur."""
    allow: tuple[str, ...] | None = None
    """No other may occur; None allows all."""


@dataclass(frozen=True)
class When:
    """For which runs a section holds; empty holds for all."""

    fuser: tuple[str, ...] = ()
    torch: str | None = None
    gpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """Expectations that hold together."""

    name: str
    path: Path
    at: Position
    when: When = When()
    groups: tuple[GroupExpectation, ...] = ()
    number_of_groups: Count | None = None
    max_fallbacks: int | None = None
    min_coverage: float | None = None
    speed: Speed = Speed()
    findings: Findings = Findings()
    places: dict[str, Position] = field(default_factory=dict)
    """Key of the section -> where it stands."""


@dataclass(frozen=True)
class Expectations:
    """A file of them."""

    file: str
    sections: tuple[Section, ...]
