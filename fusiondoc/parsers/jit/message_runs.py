"""Runs of JIT log lines, cut out of a chunk of the log as one text: the lines of
most messages are never split.

Most of a large log are prints of graphs, and most of those were printed before or
do not matter. All lines of one message have one prefix, so one search finds the end
of a run, one count the number of its lines, and one digest of its text whether the
graph is known. A text is split into lines only if something must be read from them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from re import Match
from typing import Any, NamedTuple

from fusiondoc.fusers import FUSERS
from fusiondoc.parsers.facts import positions

PREFIX = re.compile(rb"\[(?:DUMP|UPDATE|DEBUG) ([\w+-]+)\.(?:cpp|h|cu|cc):\d{3,}\]")
GLUED = re.compile(
    rb"\[(?:DUMP|UPDATE|DEBUG) [\w+-]+\.(?:cpp|h|cu|cc):\d{3,}\]|={7} Codegen output for kernel: "
    rb"|Launch Parameters: "
    rb"|kernel\d+ run in |\[fusiondoc\] "
)
"""Marks that can follow output of the program that did not end its line."""
CONTINUES = (b" ", b"graph(", b"with ", b"-> (", b"[ ")
"""Beginnings of lines that continue the message before them."""

FRAME = re.compile(rb"={4,7} [Cc]odegen output for kernel: (\S+) ={4,7}\n")
"""The line before the source of a kernel, with the name of the kernel."""

_BEHIND_A_LINE = re.compile(
    rb"\n(?=\[(?:DUMP|UPDATE|DEBUG) [\w+-]+\.(?:cpp|h|cu|cc):\d{3,}\]|%s)"
    % FRAME.pattern
)
_LINE_MESSAGES = tuple(
    fuser.log.line_messages for fuser in FUSERS.values() if fuser.log.line_messages
)
"""Messages of one line that are matched together, which makes a tenth as many runs
as one message each."""

_SHORT = 6
"""Number of lines of a run that are tested one by one before a pattern for its
prefix is compiled."""
_MOST_PATTERNS = 500

_HEAD = 256
"""Number of first bytes by which runs that may be equal are found."""
_LEAST_SEEN = 1_024
"""Number of bytes from which on a run is remembered."""
_MOST_HEADS = 4_000
_MOST_ALIKE = 12
"""Number of runs with the same first bytes that are remembered."""

Where = list[tuple[int, int]]
"""(offset in the run, position) of the start of each stretch of consecutive
lines."""


def may_hold_a_mark(line: bytes) -> bool:
    """True if the line has one of these texts; each of the marks in GLUED contains
    one. Faster than searching for the marks."""
    return (
        b"[D" in line
        or b" run in " in line
        or b"[UPDATE " in line
        or b"[fusiondoc] " in line
        or b"Codegen output" in line
        or b"Launch Parameters: " in line
    )


def run_end(lines: list[bytes], start: int, end: int, prefix: bytes) -> int:
    """Return the index after the line at ``start`` and the following lines that
    begin with ``prefix``."""
    start += 1
    while start < end and lines[start].startswith(prefix):
        start += 1
    return start


class Seen:
    """A run that occurred in the log before, byte for byte, and the results of
    reading it once."""

    __slots__ = ("digest", "graphs", "length", "rejections", "size")

    def __init__(self, size: int, length: int, digest: bytes) -> None:
        self.size = size
        """Number of bytes, with the last line end."""
        self.length = length
        """Number of lines."""
        self.digest = digest
        self.graphs: tuple[tuple[int, int, int, int, bytes], ...] | None = None
        """Its messages: line of the message, line of its graph, start and end of
        the graph's text, digest of that text."""
        self.rejections: Sequence[tuple[int, Any]] | None = None
        """Rejections of the pass, with their line numbers."""


class Lines(NamedTuple):
    """Consecutive lines as one text, without the line end of the last one."""

    text: bytes
    length: int
    seen: Seen | None = None
    at: int = -1
    """Offset of the text in the chunk; -1 if it was not cut out of one."""

    @classmethod
    def of(cls, lines: list[bytes]) -> Lines:
        return cls(b"\n".join(lines), len(lines))

    @property
    def first(self) -> bytes:
        return first_line(self.text)

    def cut_at(self, count: int) -> tuple[Lines, Lines]:
        """Return the first ``count`` lines, and the others."""
        if count >= self.length:
            return self, Lines(b"", 0)
        lines = self.split()
        return Lines.of(lines[:count]), Lines.of(lines[count:])

    def split(self) -> list[bytes]:
        return lines_of(self.text)


def lines_of(text: bytes) -> list[bytes]:
    """Return the lines of a text of the log. Only ``\\n`` ends a line; other line
    ends are characters of it."""
    return text.split(b"\n")


def first_line(text: bytes) -> bytes:
    end = text.find(b"\n")
    if end < 0:
        return text
    return text[:end]


class RunEnds:
    """Finds the ends of runs of lines. ``text`` always consists of whole lines,
    with the last line end."""

    def __init__(self) -> None:
        self._seen: dict[bytes, list[Seen]] = {}
        """Runs by their first bytes. The first run with these bytes is not kept: in
        a log without repetitions few come again."""
        self._search: dict[bytes, Callable[[bytes, int], Match[bytes] | None]] = {}
        """Prefix -> search for a line end that is followed by a line without the
        prefix."""

    @staticmethod
    def without_prefix(text: bytes, at: int) -> int:
        """Return the offset after the line at ``at`` and the following lines that
        begin neither a message of the JIT log nor the source of a kernel."""
        found = _BEHIND_A_LINE.search(text, at)
        if found is not None:
            return found.end()
        return len(text)

    def run(self, text: bytes, at: int, prefix: bytes) -> Lines:
        """Return the line at ``at`` and the following lines that begin with
        ``prefix``."""
        head = text[at : at + _HEAD]
        alike = self._seen.get(head)
        for seen in alike or ():
            end = at + seen.size
            if text[end - 1 : end] != b"\n" or text.startswith(prefix, end):
                continue
            own = text[at : end - 1]
            if sha256(own).digest() == seen.digest:
                return Lines(own, seen.length, seen, at)
        start, end = at, self.of_prefix(text, at, prefix)
        own = text[at : end - 1]
        length = text.count(b"\n", at, end)
        # At the end of the text, the run may continue in the next chunk.
        if len(own) < _LEAST_SEEN or end == len(text):
            return Lines(own, length, None, start)
        if alike is None:
            if len(self._seen) >= _MOST_HEADS:
                self._seen.clear()
            self._seen[head] = []
        elif len(alike) < _MOST_ALIKE:
            alike.append(Seen(end - at, length, sha256(own).digest()))
        return Lines(own, length, None, start)

    @staticmethod
    def line_messages(text: bytes, at: int) -> Lines | None:
        """Return the line at ``at`` and the following lines, if they are several
        one-line messages of a pass; else None."""
        for form in _LINE_MESSAGES:
            found = form.match(text, at)
            if found is not None:
                return Lines(
                    found.group()[:-1], text.count(b"\n", at, found.end()), None, at
                )
        return None

    def of_prefix(self, text: bytes, at: int, prefix: bytes) -> int:
        """Return the offset after the line at ``at`` and the following lines that
        begin with ``prefix``."""
        for _ in range(_SHORT):
            at = text.find(b"\n", at) + 1
            if not text.startswith(prefix, at):
                return at
        search = self._search.get(prefix)
        if search is None:
            if len(self._search) >= _MOST_PATTERNS:
                self._search.clear()
            search = self._search[prefix] = re.compile(
                rb"\n(?!%s)" % re.escape(prefix)
            ).search
        found = search(text, at)
        assert found is not None  # nothing follows the last line end
        return found.end()


class Print:
    """The lines of one printed graph, as one text. The printed text of each line
    starts at ``cut``."""

    __slots__ = ("_printed", "at", "cut", "known_digest", "stretches", "text")

    def __init__(
        self,
        text: bytes,
        cut: int,
        stretches: array[int] | None = None,
        digest: bytes | None = None,
        at: int = -1,
    ) -> None:
        self.text = text
        self.at = at
        """Offset of the text in the chunk; -1 if it was not cut out of one."""
        self.cut = cut
        self.stretches = stretches
        """Positions of its lines, if other lines come in between
        (``PlanUse.stretches``)."""
        self.known_digest = digest
        """None until it is needed."""
        self._printed: bytes | None = None

    def texts(self) -> list[bytes]:
        """Return the lines without their prefix; none for an empty print."""
        cut = self.cut
        lines = lines_of(self.text) if self.text else []
        if cut:
            return [line[cut:] for line in lines]
        return lines

    @property
    def prefix(self) -> bytes:
        """The prefix of each line."""
        return self.text[: self.cut]

    def printed(self) -> bytes:
        """Return the printed text of all lines, as one text."""
        if self._printed is None:
            self._printed = self._without_prefixes()
        return self._printed

    def _without_prefixes(self) -> bytes:
        text, prefix = self.text, self.prefix
        others = text.replace(b"\n" + prefix, b"\n")
        if len(text) - len(others) == text.count(b"\n") * len(prefix):
            return others[self.cut :]
        return b"\n".join(self.texts())  # a line is shorter than the prefix

    def lines(self) -> Iterator[bytes]:
        """Yield its lines one by one, for callers that need only the first ones."""
        return _one_by_one(self.text)

    @property
    def digest(self) -> bytes:
        """The digest of its text as it is in the log: equal for equal prints."""
        if self.known_digest is None:
            self.known_digest = sha256(self.text).digest()
        return self.known_digest

    @property
    def whole(self) -> bool:
        """True if the lines include the end of the graph."""
        text, cut = self.text, self.cut
        at = text.rfind(b"  return (")
        while at >= 0:
            if at - cut == text.rfind(b"\n", 0, at) + 1:
                return True
            at = text.rfind(b"  return (", 0, at)
        return False


def _one_by_one(text: bytes) -> Iterator[bytes]:
    at = 0
    while True:
        end = text.find(b"\n", at)
        if end < 0:
            yield text[at:]
            return
        yield text[at:end]
        at = end + 1


class Run:
    """Lines with one prefix, added as they are read; ``cut`` is the offset of their
    text."""

    __slots__ = ("_parts", "_seen", "at", "cut", "headless", "length", "where")

    def __init__(
        self, lines: Lines, cut: int, pos: int, headless: bool = False
    ) -> None:
        self._parts = [lines.text]
        self._seen = lines.seen
        self.at = lines.at
        """Offset of the text in the chunk; -1 if it was not cut out of one."""
        self.length = lines.length
        self.headless = headless
        """True if its first lines are not in the log."""
        self.cut = cut
        self.where: Where = [(0, pos)]

    @property
    def text(self) -> bytes:
        if len(self._parts) > 1:
            self._parts = [b"\n".join(self._parts)]
        return self._parts[0]

    def extend(self, lines: Lines, pos: int) -> None:
        start = self.length
        offset, first = self.where[-1]
        if first + start - offset != pos:
            self.where.append((start, pos))
        self._parts.append(lines.text)
        self._seen = None
        self.at = -1
        self.length += lines.length

    def position(self, offset: int) -> int:
        for start, pos in reversed(self.where):
            if start <= offset:
                return pos + offset - start
        return self.where[0][1]

    def stretches(self, start: int, end: int) -> array[int] | None:
        """Return the positions of the lines from ``start`` to ``end``, in the form
        of PlanUse; None if all are consecutive."""
        inside = [
            (offset, pos) for offset, pos in self.where if start < offset < end
        ]
        if not inside:
            return None
        made = positions()
        for offset, pos in [(start, self.position(start)), *inside]:
            made.extend((offset - start, pos))
        return made

    def begins(self, headers: tuple[bytes, ...]) -> bool:
        """True if its first line begins with one of these headers."""
        return self._parts[0].startswith(headers, self.cut)

    @property
    def header(self) -> bytes:
        """The text of its first line."""
        return first_line(self.text)[self.cut :].strip()

    def behind_header(self) -> Print:
        """Return all lines after the first, as the print of a graph."""
        text = self.text
        start = text.find(b"\n") + 1
        if not start:
            return Print(b"", self.cut)
        return Print(
            text[start:], self.cut, at=self.at + start if self.at >= 0 else -1
        )

    @property
    def complete(self) -> bool:
        """True if the last graph of the run is printed to its end (a ``with``
        section may still follow)."""
        last = self._parts[-1]
        last = last[last.rfind(b"\n") + 1 + self.cut :]
        return last.startswith(
            (b"  return (", b"</GRAPH_EXPORT>")
        ) or not last.startswith(CONTINUES)

    def graphs(self) -> Iterator[tuple[int, int, Print]]:
        """Yield the position of each message, the position of its graph, and the
        graph. All messages of the run have one header."""
        text, cut, seen = self.text, self.cut, self._seen
        several = len(self.where) > 1
        made = seen.graphs if seen is not None else None
        # Without a chunk: so small that every sum with an offset stays negative.
        chunk = self.at if self.at >= 0 else -len(text) - 1
        if made is not None:
            for line, graph_line, start, end, digest in made:
                yield (
                    self.position(line),
                    self.position(graph_line),
                    Print(text[start:end], cut, None, digest, chunk + start),
                )
            return
        found: list[tuple[int, int, int, int, bytes]] = []
        messages = list(self._messages())
        for number, (line, graph_line, start, end, behind) in enumerate(
            messages, 1
        ):
            part = text[start:end]
            if number == len(messages):  # a graph may have 15 MB: one copy
                text, self._parts = b"", [b""]
            stretches = self.stretches(graph_line, behind) if several else None
            graph = Print(part, cut, stretches, None, chunk + start)
            del part
            if seen is not None:
                found.append((line, graph_line, start, end, graph.digest))
            yield self.position(line), self.position(graph_line), graph
        if seen is not None:
            seen.graphs = tuple(found)

    def _messages(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield for each message: its line, the line of its graph, start and end of
        the graph's text, and the line after it."""
        text, cut = self.text, self.cut
        head = first_line(text)
        line = start = 0
        while start < len(text):
            end = _next_line(text, head, start)
            graph, graph_line = start + len(head) + 1, line + 1
            while graph < end:
                blank = text.find(b"\n", graph, end)
                if (blank if blank >= 0 else end) - graph > cut:
                    break
                graph, graph_line = (
                    (blank + 1 if blank >= 0 else end),
                    graph_line + 1,
                )
            if end == len(text):
                behind = self.length
            else:
                behind = line + text.count(b"\n", start, end) + 1
            yield line, graph_line, graph, end, behind
            start, line = end + 1, behind


def _next_line(text: bytes, line: bytes, start: int) -> int:
    """Return the offset of the line end before the next line equal to ``line``
    after ``start``; the end of the text if there is none."""
    mark = b"\n" + line
    at = text.find(mark, start)
    while at >= 0:
        end = at + len(mark)
        if end == len(text) or text.startswith(b"\n", end):
            return at
        at = text.find(mark, end)
    return len(text)
