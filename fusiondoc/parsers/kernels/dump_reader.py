"""Takes the lines of text dumps, from the first to the last of each."""

from __future__ import annotations

import re
from typing import Callable, Pattern

from fusiondoc.parsers.kernels.dump_kinds import KINDS, Kind, Section


def _starts() -> dict[int, tuple[Pattern[bytes], list[Kind]]]:
    """By first byte: a pattern with a group for each kind that can begin so."""
    kinds: dict[int, list[Kind]] = {}
    for kind in KINDS:
        for byte in kind.first:
            kinds.setdefault(byte, []).append(kind)
    # Equal lists share a pattern.
    patterns = {
        tuple(kind.start for kind in those): re.compile(b"|".join(b"(" + kind.start + b")" for kind in those))
        for those in kinds.values()
    }
    return {byte: (patterns[tuple(k.start for k in those)], those) for byte, those in kinds.items()}


_STARTS = _starts()

_LINES = 400_000
"""Lines after which a dump without an end is given up."""

Sink = Callable[[Kind, "list[bytes]", int], None]
"""Is told a dump: its kind, its lines, the position of the first."""


class DumpReader:
    """Whether the lines that pass belong to a dump, and what the dumps are."""

    def __init__(self, sink: Sink) -> None:
        self.inside = False
        """The last line was of a dump: an empty line after it belongs to it."""
        self._sink = sink
        self._kind: Kind | None = None
        self._section: Section | None = None
        self._lines: list[bytes] = []
        self._pos = 0
        self._confirmed = True

    @property
    def open(self) -> bool:
        """A dump has begun and may go on."""
        return self._kind is not None

    def starts(self, line: bytes, pos: int) -> bool:
        """True if this line starts a dump."""
        can = _STARTS.get(line[0])
        found = can[0].match(line) if can is not None else None
        if can is None or found is None:
            self.inside = False
            return False
        self.end()
        assert found.lastindex is not None
        kind = can[1][found.lastindex - 1]
        self.inside = True
        if kind.single:
            self._sink(kind, [line], pos)
            return True
        self._kind = kind
        self._section = kind.sections["main"]
        first = self._section.step.match(line)
        if first is not None and first.lastgroup is not None:
            self._section = kind.sections[first.lastgroup]
        self._lines = [line]
        self._pos = pos
        self._confirmed = kind.confirm is None or line.startswith(b"%")
        return True

    def refused(self, line: bytes) -> bool:
        """True if ``line`` shows that what began was no dump: its only line is the program's."""
        kind = self._kind
        if kind is None or self._confirmed:
            return False
        assert kind.confirm is not None
        if re.match(kind.confirm, line):
            self._confirmed = True
            return False
        self._kind = None
        self._confirmed = True
        self.inside = False
        return True

    def take(self, lines: list[bytes], i: int) -> int:
        """Take the lines of the open dump from ``i`` on; the index of the first that is not of it."""
        kind, section = self._kind, self._section
        assert kind is not None
        assert section is not None
        step = section.step.match
        start = i
        n = len(lines)
        while i < n:
            line = lines[i]
            found = step(line)
            if found is None:
                break
            i += 1
            if found.lastindex is not None:
                name = found.lastgroup
                assert name is not None
                if name == "end":
                    self._lines += lines[start:i]
                    self.end()
                    return i
                self._section = kind.sections[name]
                step = self._section.step.match
        self._lines += lines[start:i]
        if i < n or len(self._lines) > _LINES:
            self.end()
        return i

    def end(self) -> None:
        """Something else was printed, or the log ends: the dump is as long as it is."""
        kind, self._kind = self._kind, None
        self._confirmed = True
        if kind is not None:
            lines, self._lines = self._lines, []
            self._sink(kind, lines, self._pos)

    def enter(self) -> None:
        """A line of a dump that another parser took: an empty line after it belongs to it."""
        self.end()
        self.inside = True

    def leave(self) -> None:
        """Something else was printed: a dump never goes on after it."""
        if self._kind is not None:
            self.end()
        self.inside = False
