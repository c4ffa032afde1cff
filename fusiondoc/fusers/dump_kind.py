"""Kinds of text that a fuser dumps: how a dump begins, which lines it may have, how
it ends, and its subject. The first line that a dump cannot have ends it: the
program may print directly behind it."""

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
"""Printed for the kernel that was named last."""
LOOSE = "loose"
"""Belongs to no kernel."""


class DumpSection:
    """The possible next lines of a dump. Group ``end`` matches its last line; a
    group named after another section leads into that one."""

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
    """Possible starts of the first line, for a quick test: most lines of a log
    begin no dump."""
    start: bytes
    """Pattern of the first line."""
    sections: dict[str, DumpSection]
    """``main`` is the first."""
    single: bool = False
    """Whether the first line is the whole dump."""
    confirm: bytes | None = None
    """Pattern of the second line: the first one alone could come from the
    program."""
    again: bool = True
    """Consecutive dumps of this kind count as one text, as nothing marks where one
    ends."""


def sections(**patterns: bytes) -> dict[str, DumpSection]:
    """The sections of a dump by name, each with its pattern."""
    return {name: DumpSection(pattern) for name, pattern in patterns.items()}
