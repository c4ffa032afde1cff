"""Runs of JIT log lines, cut out of a chunk of the log whole: no line of most
messages is ever split off.

Nearly all of a large log are prints of graphs, and nearly all of those were printed
before or are of no interest. All lines of one message have one prefix, so where a
run of them ends is found by one search, their number by one count, and whether the
graph is known by one digest of its text. Lines are made of a text only where
something must be read from them.
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
"""Marks that can stand behind output of the program that had no line end."""
CONTINUES = (b" ", b"graph(", b"with ", b"-> (", b"[ ")
"""How lines begin that go on with the message before them."""

FRAME = re.compile(rb"={4,7} [Cc]odegen output for kernel: (\S+) ={4,7}\n")
"""The line before the source of a kernel, whose name it has."""

_BEHIND_A_LINE = re.compile(
    rb"\n(?=\[(?:DUMP|UPDATE|DEBUG) [\w+-]+\.(?:cpp|h|cu|cc):\d{3,}\]|%s)"
    % FRAME.pattern
)
_LINE_MESSAGES = tuple(
    fuser.log.line_messages for fuser in FUSERS.values() if fuser.log.line_messages
)
"""Taken together, these messages are a tenth of the runs that they are one by
one."""

_SHORT = 6
"""Lines of a run that are looked at one by one, before its prefix is worth a
pattern of its own."""
_MOST_PATTERNS = 500

_HEAD = 256
"""Bytes by which runs are found that may be equal."""
_LEAST_SEEN = 1_024
"""Bytes of a run that is worth being recognised."""
_MOST_HEADS = 4_000
_MOST_ALIKE = 12
"""Runs that are remembered of one head."""

Where = list[tuple[int, int]]
"""(offset in the run, position) where each stretch of consecutive lines starts."""


def may_hold_a_mark(line: bytes) -> bool:
    """One of these is in each of the marks that can be glued to output: quicker to
    look for."""
    return (
        b"[D" in line
        or b" run in " in line
        or b"[UPDATE " in line
        or b"[fusiondoc] " in line
        or b"Codegen output" in line
        or b"Launch Parameters: " in line
    )


def run_end(lines: list[bytes], start: int, end: int, prefix: bytes) -> int:
    """Behind the line at ``start`` and those after it that begin with
    ``prefix``."""
    start += 1
    while start < end and lines[start].startswith(prefix):
        start += 1
    return start


class Seen:
    """A run that stood in the log before, byte for byte, and what was found in it:
    it is found once."""

    __slots__ = ("digest", "graphs", "length", "rejections", "size")

    def __init__(self, size: int, length: int, digest: bytes) -> None:
        self.size = size
        """With its last line end."""
        self.length = length
        """In lines."""
        self.digest = digest
        self.graphs: tuple[tuple[int, int, int, int, bytes], ...] | None = None
        """Its messages: line and graph's line, start and end of the graph's text,
        digest of that."""
        self.rejections: Sequence[tuple[int, Any]] | None = None
        """Of partition.cpp, with their lines."""


class Lines(NamedTuple):
    """Consecutive lines as one text, without the line end of the last one."""

    text: bytes
    length: int
    seen: Seen | None = None
    at: int = -1
    """Where it begins in the chunk; -1 if it is not cut out of one."""

    @classmethod
    def of(cls, lines: list[bytes]) -> Lines:
        return cls(b"\n".join(lines), len(lines))

    @property
    def first(self) -> bytes:
        return first_line(self.text)

    def cut_at(self, count: int) -> tuple[Lines, Lines]:
        """The first ``count`` lines, and the others."""
        if count >= self.length:
            return self, Lines(b"", 0)
        lines = self.split()
        return Lines.of(lines[:count]), Lines.of(lines[count:])

    def split(self) -> list[bytes]:
        return lines_of(self.text)


def lines_of(text: bytes) -> list[bytes]:
    """The lines of a text of the log; line ends of any other kind are characters of
    a line."""
    return text.split(b"\n")


def first_line(text: bytes) -> bytes:
    end = text.find(b"\n")
    return text if end < 0 else text[:end]


class RunEnds:
    """Finds where runs of lines end. ``text`` is always one of whole lines, with
    the last line end."""

    def __init__(self) -> None:
        self._seen: dict[bytes, list[Seen]] = {}
        """By how they begin. The first run that begins so is not kept: few come
        again in a log in which all are different."""
        self._search: dict[bytes, Callable[[bytes, int], Match[bytes] | None]] = {}
        """What finds the line end that no line with the prefix follows."""

    @staticmethod
    def without_prefix(text: bytes, at: int) -> int:
        """Behind the line at ``at`` and those after it on which neither a message
        of the JIT log begins nor the source of a kernel."""
        found = _BEHIND_A_LINE.search(text, at)
        return found.end() if found is not None else len(text)

    def run(self, text: bytes, at: int, prefix: bytes) -> Lines:
        """The line at ``at`` and those after it that begin with ``prefix``."""
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
        if len(own) < _LEAST_SEEN or end == len(
            text
        ):  # it may go on in the next chunk
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
        """The line at ``at`` and those after it, if they are several messages of a
        pass of one line each."""
        for form in _LINE_MESSAGES:
            found = form.match(text, at)
            if found is not None:
                return Lines(
                    found.group()[:-1], text.count(b"\n", at, found.end()), None, at
                )
        return None

    def of_prefix(self, text: bytes, at: int, prefix: bytes) -> int:
        """Behind the line at ``at`` and those after it that begin with
        ``prefix``."""
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
    """The lines of one printed graph, as one text; what is printed on each starts
    at ``cut``."""

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
        """Where it begins in the chunk; -1 if it is not a piece of one."""
        self.cut = cut
        self.stretches = stretches
        """Where its lines stand if others stand between them
        (``PlanUse.stretches``)."""
        self.known_digest = digest
        """Nothing until it is needed."""
        self._printed: bytes | None = None

    def texts(self) -> list[bytes]:
        """The lines without what stands before their text; none of an empty
        print."""
        cut = self.cut
        lines = lines_of(self.text) if self.text else []
        return [line[cut:] for line in lines] if cut else lines

    @property
    def prefix(self) -> bytes:
        """What stands before the text of each line."""
        return self.text[: self.cut]

    def printed(self) -> bytes:
        """What is printed on all lines, as one text."""
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
        """Its lines, one after the other, for who needs only the first ones."""
        return _one_by_one(self.text)

    @property
    def digest(self) -> bytes:
        """Of its text as it stands in the log: equal prints have equal ones."""
        if self.known_digest is None:
            self.known_digest = sha256(self.text).digest()
        return self.known_digest

    @property
    def whole(self) -> bool:
        """Whether the end of its graph is among the lines."""
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
    """Lines of one prefix, as they come; ``cut`` is where their text starts."""

    __slots__ = ("_parts", "_seen", "at", "cut", "headless", "length", "where")

    def __init__(
        self, lines: Lines, cut: int, pos: int, headless: bool = False
    ) -> None:
        self._parts = [lines.text]
        self._seen = lines.seen
        self.at = lines.at
        """Where it begins in the chunk; -1 if it is not a piece of one."""
        self.length = lines.length
        self.headless = headless
        """Its first lines are not in the log."""
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
        """Where the lines from ``start`` to ``end`` stand, as PlanUse has it; None
        if all are consecutive."""
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
        """Whether its first line begins with one of these."""
        return self._parts[0].startswith(headers, self.cut)

    @property
    def header(self) -> bytes:
        """The text of its first line."""
        return first_line(self.text)[self.cut :].strip()

    def behind_header(self) -> Print:
        """All lines behind the first one, as the print of a graph."""
        text = self.text
        start = text.find(b"\n") + 1
        if not start:
            return Print(b"", self.cut)
        return Print(
            text[start:], self.cut, at=self.at + start if self.at >= 0 else -1
        )

    @property
    def complete(self) -> bool:
        """Whether the last graph of the run is printed to its end (a ``with``
        section may still follow)."""
        last = self._parts[-1]
        last = last[last.rfind(b"\n") + 1 + self.cut :]
        return last.startswith(
            (b"  return (", b"</GRAPH_EXPORT>")
        ) or not last.startswith(CONTINUES)

    def graphs(self) -> Iterator[tuple[int, int, Print]]:
        """For each message of the run, which all have one header: where it and its
        graph begin, the graph."""
        text, cut, seen = self.text, self.cut, self._seen
        several = len(self.where) > 1
        made = seen.graphs if seen is not None else None
        chunk = (
            self.at if self.at >= 0 else -len(text) - 1
        )  # negative for all of it
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
            if number == len(messages):  # a graph may have 15 MB: not twice
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
        """Of each message its line, that of its graph, start and end of the graph's
        text, the line behind."""
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
            behind = (
                self.length
                if end == len(text)
                else line + text.count(b"\n", start, end) + 1
            )
            yield line, graph_line, graph, end, behind
            start, line = end + 1, behind


def _next_line(text: bytes, line: bytes, start: int) -> int:
    """The line end before the next line like that one behind ``start``; the end of
    the text without any."""
    mark = b"\n" + line
    at = text.find(mark, start)
    while at >= 0:
        end = at + len(mark)
        if end == len(text) or text.startswith(b"\n", end):
            return at
        at = text.find(mark, end)
    return len(text)
