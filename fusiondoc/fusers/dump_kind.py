"""A dump of a fuser that carries text: how it begins, which lines it may have, how
it ends, what it is printed of. A line that a dump cannot have ends it: the program
may print right behind it."""

from __future__ import annotations

import re
from re import Pattern
from typing import NamedTuple

GROUP = "group"
"""Printed when a runtime is made for a group, before its kernels are compiled."""
SCHEDULE = "schedule"
"""Parameters of a scheduler: of a group too, and again whenever heuristics are
computed."""
COMPILE = "compile"
"""Printed while one kernel is made, before its name is."""
NAMED = "named"
"""Names its kernel itself."""
BUILT = "built"
"""Printed of the kernel that was named last."""
LOOSE = "loose"
"""Of no kernel."""


class Section:
    """What the next line of a dump may be. Group ``end`` is its last line; a group
    named after another section leads into that one."""

    __slots__ = ("_compiled", "_pattern")

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self._compiled: Pattern[bytes] | None = None

    @property
    def step(self) -> Pattern[bytes]:
        if self._compiled is None:
            # Few logs have more than one or two kinds of dumps.
            self._compiled = re.compile(self._pattern)
        return self._compiled


class DumpKind(NamedTuple):
    """A kind of dump that carries text."""

    option: str
    stage: str
    first: bytes
    """What the first line can begin with: most lines of a log begin no dump."""
    start: bytes
    """Pattern of the first line."""
    sections: dict[str, Section]
    """``main`` is the first."""
    single: bool = False
    """The first line is all."""
    confirm: bytes | None = None
    """What the second line must be: the first one alone could be of the program."""
    again: bool = True
    """Dumps of this kind one after another are one text: nothing says where one
    ends."""


def sections(**patterns: bytes) -> dict[str, Section]:
    """The sections of a dump by name, each with its pattern."""
    return {name: Section(pattern) for name, pattern in patterns.items()}
