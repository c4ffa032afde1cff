"""The lines of one message of the JIT log, which may come in several stretches of the log."""

from __future__ import annotations

from array import array
from typing import List, NamedTuple, Tuple

from fusiondoc.parsers.facts import positions

CONTINUES = (b" ", b"graph(", b"with ", b"-> (", b"[ ")
"""How lines begin that go on with the message before them."""

Where = List[Tuple[int, int]]
"""(offset in the run, position) where each stretch of consecutive lines starts."""


class Print(NamedTuple):
    """The lines of one printed graph; their text starts at ``cut``."""

    lines: list[bytes]
    cut: int
    stretches: array[int] | None = None
    """Where its lines stand if others stand between them (``PlanUse.stretches``)."""

    def texts(self) -> list[bytes]:
        """The lines without what stands before their text."""
        cut = self.cut
        return [line[cut:] for line in self.lines] if cut else self.lines


class Run:
    """Lines of one prefix; ``cut`` is where their text starts. They are cut only when they are read."""

    __slots__ = ("cut", "headless", "lines", "where")

    def __init__(self, lines: list[bytes], cut: int, pos: int, headless: bool = False) -> None:
        self.lines = lines
        self.headless = headless
        """Its first lines are not in the log."""
        self.cut = cut
        self.where: Where = [(0, pos)]

    def extend(self, lines: list[bytes], pos: int) -> None:
        start = len(self.lines)
        offset, first = self.where[-1]
        if first + start - offset != pos:
            self.where.append((start, pos))
        self.lines.extend(lines)

    def position(self, offset: int) -> int:
        for start, pos in reversed(self.where):
            if start <= offset:
                return pos + offset - start
        return self.where[0][1]

    def stretches(self, start: int, end: int) -> array[int] | None:
        """Where the lines from ``start`` to ``end`` stand, as PlanUse has it; None if all are consecutive."""
        inside = [(offset, pos) for offset, pos in self.where if start < offset < end]
        if not inside:
            return None
        made = positions()
        for offset, pos in [(start, self.position(start)), *inside]:
            made.extend((offset - start, pos))
        return made

    @property
    def complete(self) -> bool:
        """Whether the last graph of the run is printed to its end (a ``with`` section may still follow)."""
        last = self.lines[-1][self.cut :]
        return last.startswith((b"  return (", b"</GRAPH_EXPORT>")) or not last.startswith(CONTINUES)
