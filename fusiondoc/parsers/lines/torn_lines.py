"""Lines of torch that those of another process tore apart: a second message begins
in them. Where only the rest of one does, nothing shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusiondoc.parsers.facts import Facts, position, unpack

MARK = rb"\[(?:DUMP|UPDATE|DEBUG) [\w.+-]+:\d+\]"
"""torch begins every line of a message with it, and writes none anywhere else."""

_TORN = re.compile(MARK + rb"[^\n]*?" + MARK)
_BEGINS = (b"[DUMP ", b"[UPDATE ", b"[DEBUG ")


def torn_lines(text: bytes, end: int) -> Iterator[int]:
    """Which lines of a text up to ``end`` are torn, from 0; ``text`` is one of
    whole lines."""
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
    """Whether it begins every line that it stands in, and stands there once: as
    fast as a search."""
    return text.count(mark, 0, end) == text.count(
        b"\n" + mark, 0, end
    ) + text.startswith(mark)


_MOST_NAMED = 3
"""Torn lines that are named."""
_LOOKED_AT = 200_000
"""Lines behind the launch, or of a further log, that are looked at: processes that
share a log tear its lines from the start, and to look through all of a long one
would take as long as to read it."""


def note_torn_lines(facts: Facts, text: bytes, end: int, pos: int) -> None:
    """Those of a log of several processes; the same in one of a process alone may
    be of its threads.

    Args:
        pos: of the first line of the text.
    """
    if facts.launched is None:
        return
    file = unpack(pos)[0]
    first = (
        facts.launched if unpack(facts.launched)[0] == file else position(file, 1)
    )
    if pos - first > _LOOKED_AT:
        return
    for line in torn_lines(text, end):
        if not first <= pos + line <= first + _LOOKED_AT:
            continue
        facts.torn += 1
        if len(facts.torn_lines) < _MOST_NAMED:
            facts.torn_lines.append(pos + line)
