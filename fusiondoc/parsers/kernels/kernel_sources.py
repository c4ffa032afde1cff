"""Sources of kernels that stand in one piece: a kernel is compiled in every
process, and each time its source is printed. It is looked through once, and its
digest is made once.
"""

from __future__ import annotations

from typing import NamedTuple

from fusiondoc.parsers.jit.message_runs import FRAME
from fusiondoc.parsers.kernels.kept_texts import digest_of
from fusiondoc.parsers.kernels.launches import FRAME_END

NEXT_FRAME = (
    b"======= Codegen output for kernel: ",
    b"==== codegen output for kernel: ",
)
ENDS_CODE = (b"[DUMP ", b"[UPDATE ", b"[DEBUG ", *NEXT_FRAME)
"""What no source holds: it broke off before, or messages stand between its
lines."""

FRAME_LIMIT = 400_000
"""Lines after which a codegen frame without an end is given up as cut off."""

_MOST = 4_000
"""Sources that are known again."""

_END = b"\n%s\n" % FRAME_END

Place = tuple[bytes, int, int]
"""A text, and from where to where a source stands in it."""


class Source:
    """A source that was printed from its begin to its end."""

    __slots__ = ("digest", "lines")

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.digest: bytes | None = None
        """Nothing until it is needed."""

    def read(self, place: Place) -> tuple[bytes, bytes]:
        """The source that stands there, without empty lines around it, and its
        digest; nothing of one that was read before but its digest."""
        if self.digest is not None:
            return b"", self.digest
        text, start, end = place
        code = text[start:end].strip(b"\n")
        self.digest = digest_of(code)
        return code, self.digest


class Found(NamedTuple):
    """A source in a text."""

    kernel: bytes
    source: Source
    place: Place
    end: int
    """Behind the line that ends it."""


class Sources:
    """The sources of one stream. ``text`` is one of whole lines."""

    def __init__(self) -> None:
        self._known: dict[int, Source] = {}
        """By Python's hash of their bytes: SipHash of 64 bits with a key of this
        process."""

    def whole(self, text: bytes, at: int) -> Found | None:
        """The source whose first line stands at ``at``, if its end stands in the
        text too, and nothing else between its lines."""
        first = FRAME.match(text, at)
        end = text.find(_END, first.end() - 1) if first is not None else -1
        if first is None or end < 0:
            return None
        start = first.end()
        key = hash(memoryview(text)[start:end])
        source = self._known.get(key)
        if source is None:
            code, lines = text[start:end], text.count(b"\n", start, end + 1)
            if lines > FRAME_LIMIT or any(mark in code for mark in ENDS_CODE):
                return None
            source = Source(lines)
            if len(self._known) < _MOST:
                self._known[key] = source
        return Found(first.group(1), source, (text, start, end), end + len(_END))


def index_of(lines: list[bytes], line: bytes, start: int, end: int) -> int:
    """Where that line is; ``end`` if it is not there before it."""
    try:
        return lines.index(line, start, end)
    except ValueError:
        return end
