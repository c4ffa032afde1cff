"""Complete sources of kernels in one piece of text. A kernel is compiled in every
process, and each time its source is printed: it is checked once, and its digest is
computed once."""

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
"""Texts that no source contains: it was truncated before them, or messages come
between its lines."""

FRAME_LIMIT = 400_000
"""Number of lines after which a codegen frame without an end counts as
truncated."""

_MOST = 4_000
"""Number of sources that are remembered."""

_END = b"\n%s\n" % FRAME_END

Span = tuple[bytes, int, int]
"""A text, and the start and end of a source in it."""


class PrintedSource:
    """A source that was printed completely."""

    __slots__ = ("digest", "lines")

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.digest: bytes | None = None
        """None until it is needed."""

    def read(self, span: Span) -> tuple[bytes, bytes]:
        """Return the source in this range, without empty lines around it, and its
        digest; b"" and the digest if the source was read before."""
        if self.digest is not None:
            return b"", self.digest
        text, start, end = span
        code = text[start:end].strip(b"\n")
        self.digest = digest_of(code)
        return code, self.digest


class FoundSource(NamedTuple):
    """A source in a text."""

    kernel: bytes
    source: PrintedSource
    span: Span
    end: int
    """Offset after the last line of the source's frame."""


class KernelSources:
    """The sources of one stream. ``text`` consists of whole lines."""

    def __init__(self) -> None:
        self._known: dict[int, PrintedSource] = {}
        """By Python's hash of their bytes: SipHash of 64 bits with a key of this
        process."""

    def whole(self, text: bytes, at: int) -> FoundSource | None:
        """Return the source whose frame begins at ``at``, if its end is in the text
        too and no other lines come in between; else None."""
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
            source = PrintedSource(lines)
            if len(self._known) < _MOST:
                self._known[key] = source
        return FoundSource(
            first.group(1), source, (text, start, end), end + len(_END)
        )


def index_of(lines: list[bytes], line: bytes, start: int, end: int) -> int:
    """Return the index of ``line`` from ``start`` on; ``end`` if it does not occur
    before ``end``."""
    try:
        return lines.index(line, start, end)
    except ValueError:
        return end
