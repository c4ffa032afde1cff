"""What surrounds the lines of a log: line ends, ANSI colours, progress bars, timestamps and rank prefixes."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, Sequence

ANSI = re.compile(rb"(?:\x9b|\x1b\[)[0-?]*[ -/]*[@-~]")
"""Control sequences, as in ECMA-48; nvFuser's buffer_reuse_verbose prints them even to a file."""

_MOST_PREFIX = 300
"""Bytes; a marker further right stands behind output of the program, not behind a prefix."""

MARKER = re.compile(
    rb"\[(?:DUMP|UPDATE|DEBUG) [\w.+-]+:\d+\]|(?<!With arguments: )Launch Parameters: |kernel\d+ run in "
    rb"|======= Codegen output|\[fusiondoc\] |(?<!= )graph\(%|  return \("
)

_DIGITS = re.compile(rb"\d+")


def clean(chunk: bytes) -> bytes:
    """Remove colours, CRLF and overwritten progress text. Does nothing, fast, when there are none."""
    if b"\x1b" in chunk or b"\x9b" in chunk:
        chunk = ANSI.sub(b"", chunk)
    if b"\r" in chunk:
        chunk = b"\n".join(map(_overwritten, chunk.replace(b"\r\n", b"\n").split(b"\n")))
    return chunk


def _overwritten(line: bytes) -> bytes:
    """What a terminal shows of a line with carriage returns (tqdm and others): the text after the last one.
    One at the very end overwrites nothing."""
    return line[line.rfind(b"\r", 0, max(0, len(line) - 1)) + 1 :]


class OuterPrefix:
    """A prefix that something outside torch put before every line: a time, a rank tag, or both.

    Learnt from where torch's own markers stand in a sample: the same text (but for digits) before most of
    them is a prefix. Text before only a few is output of the program without a line end.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self.patterns = tuple(patterns)
        self._match = re.compile(b"|".join(b"(?:" + p + b")" for p in patterns)).match

    def split(self, line: bytes) -> tuple[bytes | None, bytes]:
        """(prefix, line without it); (None, line) for a line that has no such prefix."""
        found = self._match(line)
        if found is None:
            return None, line
        return found.group(), line[found.end() :]

    def prefixes(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The prefixes of those lines that have one."""
        for line in lines:
            found = self._match(line)
            if found is not None:
                yield found.group()

    @staticmethod
    def learn(lines: Sequence[bytes]) -> OuterPrefix | None:
        """The prefix of a sample of lines, or None when markers stand at the line start."""
        shapes: dict[bytes, int] = {}
        marked = 0
        for line in lines:
            found = MARKER.search(line)
            if found is None:
                continue
            marked += 1
            if 0 < found.start() <= _MOST_PREFIX:
                shape = _DIGITS.sub(b"0", line[: found.start()])
                shapes[shape] = shapes.get(shape, 0) + 1
        outer = [shape for shape, count in shapes.items() if count >= 3 and not shape.isspace()]
        if not marked or sum(shapes[shape] for shape in outer) * 2 < marked:
            return None
        outer.sort(key=len, reverse=True)
        return OuterPrefix([re.escape(shape).replace(b"0", rb"\d{1,20}") for shape in outer[:16]])
