"""The one loop from the bytes of a log to its lines, each stretch of them with the process that it is of."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple

from fusiondoc.parsers.lines.cleaning import OuterPrefix, clean
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
        for index, chunk in enumerate(read_chunks(self._log, self._cut)):
            if self._read is not None:
                self._read(len(chunk))
            lines = clean(chunk).split(b"\n")
            if not lines[-1]:
                lines.pop()
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
