"""The one loop from the bytes of a log to its lines, each stretch of them with the process that it is of."""

from __future__ import annotations

import re
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence

from fusiondoc.parsers.lines.json_lines import text_field, unwrapped
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.parsers.lines.ranks import RankTags, Tag

SAMPLE = 4000
"""Lines from which an outer prefix is learnt."""


class Stretch(NamedTuple):
    """Consecutive lines of one process, without colours and outer prefix."""

    tag: Tag
    number: int
    """Of the first line, from 1."""
    lines: list[bytes]


class TaggedLog:
    """A log that is read once.

    Args:
        read: told the bytes of each chunk.
        cut: as for ``read_chunks``.
    """

    def __init__(
        self,
        log: LogInput,
        read: Callable[[int], None] | None = None,
        cut: Callable[[int, bool], None] | None = None,
    ) -> None:
        self._log = log
        self._read = read
        self._cut = cut
        self._tags = RankTags(())

    @property
    def first(self) -> bytes | None:
        """The text behind the tag None, once lines are read."""
        return self._tags.first

    def stretches(self) -> Iterator[Stretch]:
        """All lines, in order."""
        number = 1
        outer: OuterPrefix | None = None
        field: str | None = None
        for index, chunk in enumerate(read_chunks(self._log, self._cut)):
            if self._read is not None:
                self._read(len(chunk))
            lines = clean(chunk).split(b"\n")
            if not lines[-1]:
                lines.pop()
            if index == 0:
                field = text_field(lines[:SAMPLE], MARKER.search)
            if field is not None:
                lines = [unwrapped(line, field) for line in lines]
            if index == 0:
                outer = OuterPrefix.learn(lines[:SAMPLE])
                if outer is not None:
                    self._tags = RankTags(outer.prefixes(lines[:SAMPLE]))
            if outer is None:
                yield Stretch(None, number, lines)
            else:
                yield from self._of_processes(outer, lines, number)
            number += len(lines)

    def _of_processes(self, outer: OuterPrefix, lines: list[bytes], number: int) -> Iterator[Stretch]:
        tags = self._tags
        stretch: list[bytes] = []
        start = number
        for place, line in enumerate(lines, number):
            prefix, rest = outer.split(line)
            owner = tags.tag(prefix) if prefix is not None else tags.current
            if owner != tags.current:
                if stretch:
                    yield Stretch(tags.current, start, stretch)
                stretch, start, tags.current = [], place, owner
            stretch.append(rest)
        if stretch:
            yield Stretch(tags.current, start, stretch)


def tagged_lines(log: LogInput) -> Iterator[tuple[int, Tag, bytes]]:
    """(number from 1, tag of the process, line) of every line: for what needs their text after the parse."""
    for tag, start, lines in TaggedLog(log).stretches():
        for number, line in enumerate(lines, start):
            yield number, tag, line


ANSI = re.compile(rb"(?:\x9b|\x1b\[)[0-?]*[ -/]*[@-~]")
"""Control sequences, as in ECMA-48; nvFuser's buffer_reuse_verbose prints them even to a file."""

_MOST_PREFIX = 300
"""Bytes; a marker further right stands behind output of the program, not behind a prefix."""

MARKER = re.compile(
    rb"\[(?:DUMP|UPDATE|DEBUG) [\w.+-]+:\d+\]|(?<!With arguments: )Launch Parameters: |kernel\d+ run in "
    rb"|======= Codegen output|\[fusiondoc\] |(?<!= )graph\(%|  return \("
)

_DIGITS = re.compile(rb" *\d+")
"""A number, and the spaces that line it up with longer ones."""


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
        return OuterPrefix(
            [re.escape(shape).replace(b"0", rb" {0,20}\d{1,20}(?!\d)") for shape in outer[:16]]
        )
