"""Finds lines of torch that the output of another process interrupted: a second
message begins inside them. If only the rest of a message is inside, nothing shows
it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusiondoc.parsers.facts import Facts, position, unpack

MARK = rb"\[(?:DUMP|UPDATE|DEBUG) [\w.+-]+:\d+\]"
"""torch begins every line of a message with it, and writes it nowhere else."""

_TORN = re.compile(MARK + rb"[^\n]*?" + MARK)
_BEGINS = (b"[DUMP ", b"[UPDATE ", b"[DEBUG ")


def torn_lines(text: bytes, end: int) -> Iterator[int]:
    """Yield the numbers, from 0, of the interrupted lines of a text up to ``end``.
    ``text`` consists of whole lines."""
    if all(_at_line_starts(text, end, mark) for mark in _BEGINS):
        return
    line, done, last = 0, 0, -1
    for found in _TORN.finditer(text, 0, end):
        line += text.count(b"\n", done, found.start())
        done = found.start()
        if line != last:
            yield line
        last = line


def _at_line_starts(text: bytes, end: int, mark: bytes) -> bool:
    """True if each ``mark`` in the text is at the start of a line: as fast as a
    search."""
    return text.count(mark, 0, end) == text.count(
        b"\n" + mark, 0, end
    ) + text.startswith(mark)


_MOST_NAMED = 3
"""Number of interrupted lines that are named."""
_LOOKED_AT = 200_000
"""Number of lines after the launch, or from the start of a later log, that are
checked: processes that share a log interrupt its lines from the start, and checking
all of a long log would take as long as reading it."""


def note_torn_lines(facts: Facts, text: bytes, end: int, pos: int) -> None:
    """Count lines in which the output of two processes was interleaved. In a log of
    a single process the same pattern may come from threads and is not counted.

    Args:
        pos: position of the first line of the text.
    """
    if facts.launched is None:
        return
    file = unpack(pos)[0]
    if unpack(facts.launched)[0] == file:
        first = facts.launched
    else:
        first = position(file, 1)
    if pos - first > _LOOKED_AT:
        return
    for line in torn_lines(text, end):
        if not first <= pos + line <= first + _LOOKED_AT:
            continue
        facts.torn += 1
        if len(facts.torn_lines) < _MOST_NAMED:
            facts.torn_lines.append(pos + line)
