"""Messages of torch's JIT log: ``[LEVEL file.cpp:line] text``, with the same prefix
on every line of a message. Also the release of torch that printed them, from the
source lines that the prefixes name.

A message has no end mark: a run of lines with one prefix is taken as a whole and
split where its header text occurs again. ``graph_facts.py`` records the messages in
the facts. Grammar: torch/csrc/jit/jit_log.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusiondoc.fusers import FUSERS
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.events import (
    EVENT_OF_FILE,
    CacheBegins,
    CacheLines,
    Headers,
    Logged,
    NncLines,
    NodeStatements,
    PrintedGraph,
    WorkOver,
)
from fusiondoc.parsers.facts import LineCounts
from fusiondoc.parsers.gathering import Gathering
from fusiondoc.parsers.jit.bare_graphs import HeadlessPlans
from fusiondoc.parsers.jit.message_headers import (
    CACHE_HEADERS,
    FALLBACK_HEADERS,
    FUSER_OF_HEADER,
    KIND_OF_HEADER,
    PLAN_FILES,
    POINTER_MADE,
    POINTER_RUNS,
    GraphKind,
)
from fusiondoc.parsers.jit.message_runs import CONTINUES, PREFIX, Lines, Run
from fusiondoc.parsers.jit.nnc_failed_conditions import FILE as FILE_OF_CONDITIONS
from fusiondoc.parsers.jit.nnc_failed_conditions import SINGLE
from fusiondoc.parsers.jit.rejections import Rejections
from fusiondoc.parsers.repeats import Tape

_RELEASES = {
    (file, line): release
    for fuser in FUSERS.values()
    for release, files in fuser.log.source_lines.items()
    for file, lines in files.items()
    for line in lines
}

_SOURCE_POSITION = re.compile(rb"([\w+-]+)\.cpp:(\d{3,6})\]")


def _release_of(prefixes: Iterable[bytes]) -> str | None:
    """Return the release whose fuser printed messages with these prefixes (``[DUMP
    graph_fuser.cpp:2419]``); "2.0" for 2.0 and 2.1. None if they name no known
    source line, or lines of several releases."""
    positions = (_SOURCE_POSITION.search(prefix) for prefix in prefixes)
    releases = {
        _RELEASES.get(
            (
                found.group(1).decode("ascii", "replace"),
                whole_number(found.group(2)) or 0,
            )
        )
        for found in positions
        if found is not None
    } - {None}
    if len(releases) == 1:
        return releases.pop()
    return None


_INDENTED = tuple(
    start for fuser in FUSERS.values() for start in fuser.log.indented
)

_AFTER_WORK = (*PLAN_FILES, "partition")
"""Files of torch whose messages come before or after the work on a group, never
during it."""


_LONGEST_HEADER = 80


class JitMessages:
    """Reads runs of JIT log lines in order and emits their contents as events."""

    def __init__(
        self, gathering: Gathering, counts: LineCounts, tape: Tape
    ) -> None:
        self._gathering = gathering
        self._facts = gathering.facts
        self._tape = tape
        self._counts = counts
        self._open: dict[bytes, Run] = {}
        self._held: bytes | None = None
        self._last_single: bytes | None = None
        self._without_start: bytes | None = None
        """The prefix of the last message whose start is not in the log."""
        self._files: dict[bytes, str] = {}
        self._headless = HeadlessPlans()
        refusals = [
            fuser.log.refusals
            for fuser in FUSERS.values()
            if fuser.log.refusals is not None
        ]
        self._rejections = {one.file: Rejections(one) for one in refusals}
        """By the file of torch that prints the refusals."""

    # -- runs -----------------------------------------------------------------------------------------------

    def take(self, prefix: bytes, lines: Lines, pos: int) -> None:
        """Read lines that start with ``prefix`` (up to its ``]``), consecutive in
        the log from ``pos`` on."""
        cut = len(prefix) + 1
        first = lines.first[cut:]
        if self._file(prefix) in _AFTER_WORK:
            self._tape.happens(pos, WorkOver())
        if not first.startswith(CONTINUES) and not (
            not first and self._may_go_on(prefix)
        ):
            if not self._single(prefix, first, lines, cut, pos):
                self._begins(prefix, first, Run(lines, cut, pos), pos)
        elif prefix in self._open:
            self._goes_on(prefix, lines, cut, pos)
        elif prefix == self._last_single:
            # Blocks of the node that the last line printed, or the rest of a loop
            # nest.
            own, rest = lines.cut_at(_going_on(lines.split(), cut))
            self._take_kernel(self._file(prefix), own, cut, pos)
            self._take_rest(prefix, own, rest, pos)
        elif first.startswith(b"graph(") and (
            self._facts.levels or self._file(prefix) not in PLAN_FILES
        ):
            # A message that consists only of a graph.
            self.settle()
            self._opens(prefix, Run(lines, cut, pos))
        else:
            self._starts_before(prefix, first, lines, cut, pos)

    def _begins(self, prefix: bytes, first: bytes, run: Run, pos: int) -> None:
        """Begin a message of several lines."""
        self.settle()
        if prefix in self._open:
            self._finish(prefix)
        self._opens(prefix, run)
        if first.startswith(CACHE_HEADERS):
            self._tape.happens(pos, CacheBegins())

    def _opens(self, prefix: bytes, run: Run) -> None:
        self._open[prefix] = run
        self._held = prefix if run.complete else None

    def _goes_on(self, prefix: bytes, lines: Lines, cut: int, pos: int) -> None:
        """Add lines to an open message."""
        if self._held != prefix:
            self.settle()
        run = self._open[prefix]
        if run.headless:
            self._take_headless(prefix, lines, cut, pos)
            return
        self._extend(prefix, lines, pos)
        self._held = prefix if run.complete else None

    def _starts_before(
        self, prefix: bytes, first: bytes, lines: Lines, cut: int, pos: int
    ) -> None:
        """Read lines of a message whose start is not in the log, unless it is an
        indented message of a fuser."""
        if not first.startswith(_INDENTED) and self._file(prefix) in PLAN_FILES:
            self.settle()
            self._take_headless(prefix, lines, cut, pos)
            return
        own, rest = lines.cut_at(_going_on(lines.split(), cut))
        self._counts.truncated += (
            not first.startswith(_INDENTED) and prefix != self._without_start
        )
        self._without_start = prefix
        self._take_rest(prefix, own, rest, pos)

    def _may_go_on(self, prefix: bytes) -> bool:
        """True if an empty line may belong to the message before it: that message
        is open, or it is a kernel whose text so far ended there."""
        return prefix in self._open or (
            prefix == self._last_single and self._file(prefix) in EVENT_OF_FILE
        )

    def take_several(self, prefix: bytes, lines: Lines, pos: int) -> None:
        """Read several one-line messages of a pass, as ``RunEnds`` finds them;
        ``prefix`` is that of the first."""
        self._tape.happens(pos, WorkOver())
        self.settle()
        last = lines.text.rfind(b"\n") + 1
        self._last_single = lines.text[last : lines.text.index(b"]", last) + 1]
        self._logged(self._file(prefix), pos)
        self._tape.happens(
            pos, NncLines([line[line.index(b"]") + 2 :] for line in lines.split()])
        )
        self._counts.recognised += lines.length

    def _take_headless(
        self, prefix: bytes, lines: Lines, cut: int, pos: int
    ) -> None:
        """Read lines of a graph whose header is not in the log; the next message
        may follow among them."""
        own, rest = lines.cut_at(_going_on(lines.split(), cut))
        if prefix not in self._open:
            self._open[prefix] = Run(own, cut, pos, headless=True)
        elif own.length:
            self._extend(prefix, own, pos)
        self._held = prefix if self._open[prefix].complete else None
        if rest.length:
            self.take(prefix, rest, pos + own.length)

    def _extend(self, prefix: bytes, lines: Lines, pos: int) -> None:
        run = self._open[prefix]
        if run.where[0][1] < self._tape.pos:
            self._tape.spoil()
        run.extend(lines, pos)

    def _take_rest(self, prefix: bytes, own: Lines, rest: Lines, pos: int) -> None:
        """Count the ``own`` lines as read, and read the ``rest``, which follows
        them and begins another message."""
        self._counts.recognised += own.length
        if rest.length:
            self.take(prefix, rest, pos + own.length)

    def settle(self) -> None:
        """Emit the last message now if it is complete: an event that may depend on
        it follows."""
        if self._held is not None:
            self._finish(self._held)

    def at_rest(self) -> bool:
        """Emit the last message, as a new one begins. Return True if only truncated
        messages are open then."""
        if self._held is not None:
            if self._open[self._held].begins(FALLBACK_HEADERS):
                # When the work ends depends on whether the new message is known.
                return False
            self._finish(self._held)
        return True

    @property
    def last_ones(self) -> tuple[bytes | None, bytes | None, tuple[bytes, ...]]:
        """The prefixes of the last one-line message, of the last message whose
        start is not in the log, and of the open messages."""
        return self._last_single, self._without_start, tuple(self._open)

    @last_ones.setter
    def last_ones(
        self, prefixes: tuple[bytes | None, bytes | None, tuple[bytes, ...]]
    ) -> None:
        self._last_single, self._without_start, _ = prefixes

    def close(self) -> None:
        """Finish at the end of the log: open messages are truncated."""
        for prefix in list(self._open):
            self._finish(prefix)
        for reader in self._rejections.values():
            reader.clear()
        self._gathering.graphs.close()
        self._facts.plans += self._headless.plans(
            self._gathering.last_headers, self._facts.plans
        )
        self._facts.release = _release_of(self._files)

    def _finish(self, prefix: bytes) -> None:
        """Emit an open message that is read completely."""
        run = self._open.pop(prefix)
        self._tape.read()
        if self._held == prefix:
            self._held = None
        pos = run.where[0][1]
        if pos < self._tape.pos:
            self._tape.spoil()
        self._counts.recognised += run.length
        self._logged(self._file(prefix), pos)
        if run.headless or not run.complete:
            self._counts.truncated += 1
        if run.headless:
            self._tape.spoil()
            self._headless.add(prefix, self._file(prefix), run)
            return
        header = run.header
        last = {prefix: header} if len(header) < _LONGEST_HEADER else {}
        named = bool(last) and b"graph(" not in header
        counted = {header.decode("utf-8", "replace") if named else "other": 1}
        kind = KIND_OF_HEADER.get(header)
        fuser = FUSER_OF_HEADER.get(header)
        if kind is GraphKind.PASS_BEGINS:
            self._tape.happens(
                pos, PrintedGraph(kind, 0, run.behind_header(), fuser)
            )
        if kind is None or kind is GraphKind.PASS_BEGINS:
            self._tape.happens(pos, Headers(last, counted))
            return
        for at, graph_at, graph in run.graphs():
            self._tape.happens(at, Headers(last, counted))
            self._tape.happens(at, PrintedGraph(kind, graph_at - at, graph, fuser))

    def _file(self, prefix: bytes) -> str:
        name = self._files.get(prefix)
        if name is None:
            found = PREFIX.match(prefix)
            if found:
                name = self._files[prefix] = found.group(1).decode("ascii")
            else:
                name = self._files[prefix] = ""
        return name

    # -- messages of one line -------------------------------------------------------------------------------

    def _single(
        self, prefix: bytes, first: bytes, lines: Lines, cut: int, pos: int
    ) -> bool:
        """Take a run of one-line messages; False if the run holds a graph."""
        name = self._file(prefix)
        if name in self._rejections and not prefix.startswith(b"[DUMP "):
            self.settle()
            self._tape.happens(
                pos, NodeStatements(self._rejections[name].found(lines, cut))
            )
            event: CacheLines | NncLines | None = None
        elif name == "kernel_cache" and first.startswith(
            (POINTER_MADE, POINTER_RUNS)
        ):
            event = CacheLines(_texts(lines, cut))
        elif name == FILE_OF_CONDITIONS and first.startswith(SINGLE):
            event = NncLines(_texts(lines, cut))
        elif (
            b"graph(" in first
            or prefix.startswith(b"[DUMP ")
            or first in (b"", b"<GRAPH_EXPORT>")
        ):
            return False
        else:
            event = None
        self.settle()
        self._last_single = prefix
        self._logged(name, pos)
        self._take_kernel(name, lines, cut, pos)
        if event is not None:
            self._tape.happens(pos, event)
        self._counts.recognised += lines.length
        return True

    def _take_kernel(self, name: str, lines: Lines, cut: int, pos: int) -> None:
        """Emit lines of a kernel, if the file of torch prints kernels."""
        kernel = EVENT_OF_FILE.get(name)
        if kernel is not None:
            self._tape.happens(pos, kernel(_texts(lines, cut)))

    def _logged(self, file: str, pos: int) -> None:
        """Record that a file of torch printed a message."""
        if file not in self._facts.levels:
            self._tape.happens(pos, Logged(file))


def _texts(lines: Lines, cut: int) -> list[bytes]:
    """Return the text of each line, which starts at ``cut``."""
    return [line[cut:] for line in lines.split()]


def _going_on(lines: list[bytes], cut: int) -> int:
    """Return how many of the first lines can continue the message before them."""
    for i, line in enumerate(lines):
        if not line.startswith(CONTINUES, cut) and len(line) > cut:
            return i
    return len(lines)
