"""The positions of a text's lines in a log: lines of other processes, and rows that
a tool broke, may come in between."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from fusiondoc.fusers.inductor.compilation import Line


class TextLines(NamedTuple):
    """The positions of a text's lines in a log."""

    log: int
    """Number of the log."""
    first: int
    """The line number of the first line, from 1."""
    gaps: tuple[tuple[int, int], ...] = ()
    """(line of the text from 0, number of other lines between it and the first
    line), for each line before which there are further other lines."""

    @classmethod
    def numbered(cls, log: int, numbers: Sequence[int]) -> TextLines:
        """Return the positions of a text whose lines have these numbers in the
        log."""
        gaps: list[tuple[int, int]] = []
        others = 0
        for index, number in enumerate(numbers):
            between = number - numbers[0] - index
            if between != others:
                gaps.append((index, between))
                others = between
        return cls(log, numbers[0], tuple(gaps))

    @property
    def begin(self) -> Line:
        """The position of the first line."""
        return self.log, self.first

    def line(self, index: int) -> Line:
        """Return the position of a line of the text, counted from 0."""
        passed = bisect_right(self.gaps, index, key=_start_of)
        others = self.gaps[passed - 1][1] if passed else 0
        return self.log, self.first + index + others


def _start_of(gap: tuple[int, int]) -> int:
    return gap[0]
