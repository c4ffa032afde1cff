"""What went wrong while a dump was read: kept short however damaged the dump is."""

from __future__ import annotations

KEPT = 20
"""How many problems of one dump are worded; the rest is counted."""
QUOTED = 80
"""How many characters of a line are quoted."""


class Problems:
    """Problems in the order they were met, and the numbers of the lines that are no IR."""

    def __init__(self) -> None:
        self.foreign: list[int] = []
        self._texts: list[str] = []
        self._count = 0

    def add(self, line: int, what: str) -> None:
        """``line`` counts from 0 within the dump."""
        self._count += 1
        if len(self._texts) < KEPT:
            self._texts.append(f"line {line} of the dump: {what}")

    def set_aside(self, line: int, text: str) -> None:
        """A line that is no part of the dump."""
        self.foreign.append(line)
        quoted = text.strip()
        if len(quoted) > QUOTED:
            quoted = quoted[:QUOTED] + "..."
        self.add(line, f"set aside, not IR: {quoted!r}")

    def texts(self) -> list[str]:
        """What to report."""
        more = self._count - len(self._texts)
        return [*self._texts, f"and {more} more"] if more else list(self._texts)
