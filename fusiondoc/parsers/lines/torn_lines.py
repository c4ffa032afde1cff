"""Lines of torch that those of another process tore apart: a second message begins in them. Where only the
rest of one does, nothing tells."""

from __future__ import annotations

import re
from typing import Iterator

MARK = rb"\[(?:DUMP|UPDATE|DEBUG) [\w.+-]+:\d+\]"
"""torch begins every line of a message with it, and writes none anywhere else."""

_TORN = re.compile(MARK + rb"[^\n]*?" + MARK)
_BEGINS = (b"[DUMP ", b"[UPDATE ", b"[DEBUG ")


def torn_lines(text: bytes, end: int) -> Iterator[int]:
    """Which lines of a text up to ``end`` are torn, from 0; ``text`` is one of whole lines."""
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
    """Whether it begins every line that it stands in, and stands there once: as fast as a search."""
    return text.count(mark, 0, end) == text.count(b"\n" + mark, 0, end) + text.startswith(mark)
