"""A line that stands in several rows of a log, and the numbers of the lines behind
it."""

from __future__ import annotations

import re

from fusiondoc.fusers import signs
from fusiondoc.parsers.lines.outer_prefix import BEGINS
from fusiondoc.parsers.program_output import SIGNS

_SIGNS_OF_DUMPS = signs()
_SIGNS = tuple(
    sign for sign in SIGNS if sign[:1] != b"\n" and sign not in _SIGNS_OF_DUMPS
)
_SIGNS_AT_START = tuple(sign[1:] for sign in SIGNS if sign[:1] == b"\n")
_OF_GRAPH = re.compile(rb" {2}(?:%[^\s,:)]+ : |block\d|-> \(|return \()")
"""In a line of a graph, which stands without the prefix of torch's log where a
program prints it."""
_BEGIN_OF_SOURCE = b"odegen output for kernel: "
_END_OF_SOURCE = b"=" * 36


class HeldLine:
    """A line as far as it has come, and the rows that it stood in. An empty line
    stands for each row behind its first, so the numbers of lines stay: before the
    next line about fusion or a failure, as none must stand in the source of a
    kernel or in a dump."""

    def __init__(self) -> None:
        self.so_far = b""
        self.rows = 0
        """0 if no line is held."""
        self._missing = 0
        self._in_source = False
        """Of a kernel."""
        self._in_dump = False

    def begin(self, row: bytes, rows: int = 1) -> None:
        """A line, of which so many rows are in the text."""
        self.so_far, self.rows = row, rows

    def goes_on(self, row: bytes) -> None:
        self.so_far += row
        self.rows += 1

    def released(self) -> list[bytes]:
        if not self.rows:
            return []
        text, missing = self.so_far, self._missing
        self._missing += self.rows - 1
        self.so_far, self.rows = b"", 0
        if not self._is_numbered(text) or not missing:
            return [text]
        self._missing -= missing
        return [*[b""] * missing, text]

    def end(self) -> bytes:
        """What is left at the end of the log."""
        lines = [*self.released(), *[b""] * self._missing]
        self._missing = 0
        return b"".join(line + b"\n" for line in lines)

    def _is_numbered(self, line: bytes) -> bool:
        """Whether findings may name the number of a line."""
        if _BEGIN_OF_SOURCE in line:
            self._in_source = True
            return True
        if self._in_source:
            self._in_source = _END_OF_SOURCE not in line
            return BEGINS.search(line) is not None
        was_in_dump, self._in_dump = (
            self._in_dump,
            any(sign in line for sign in _SIGNS_OF_DUMPS),
        )
        if self._in_dump and not was_in_dump:
            return True
        if _OF_GRAPH.search(line) is not None or BEGINS.search(line) is not None:
            return True
        return any(sign in line for sign in _SIGNS) or line.startswith(
            _SIGNS_AT_START
        )
