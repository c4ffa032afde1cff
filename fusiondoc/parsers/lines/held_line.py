"""A line that consists of several rows of a log, and the line numbers after it."""

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
"""A line of a graph. It has no prefix of torch's log where a program prints the
graph."""
_BEGIN_OF_SOURCE = b"odegen output for kernel: "
_END_OF_SOURCE = b"=" * 36


class HeldLine:
    """The line as read so far, and the number of its rows. Each row after its first
    is replaced by an empty line, so that line numbers stay correct. The empty lines
    are inserted before the next line about fusion or a failure, since they must not
    be inside the source of a kernel or a dump."""

    def __init__(self) -> None:
        self.so_far = b""
        self.rows = 0
        """0 if no line is held."""
        self._missing = 0
        self._in_source = False
        """True inside the source of a kernel."""
        self._in_dump = False

    def begin(self, row: bytes, rows: int = 1) -> None:
        """Begin a line; ``rows``: number of rows of which its text consists."""
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
        """Return the remaining lines at the end of the log."""
        lines = [*self.released(), *[b""] * self._missing]
        self._missing = 0
        return b"".join(line + b"\n" for line in lines)

    def _is_numbered(self, line: bytes) -> bool:
        """True if findings may name the number of this line."""
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
