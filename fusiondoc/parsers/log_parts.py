"""A log in parts that end where a message begins, if one does near the end of what was read, so that few
messages stand in two parts; and where each part stands in the file, where another process can read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fusiondoc.parsers.jit.message_runs import FRAME, PREFIX
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks, utf16_decoder
from fusiondoc.parsers.lines.outer_prefix import is_plain
from fusiondoc.parsers.lines.tagged_lines import clean
from fusiondoc.parsers.repeats import NEVER, is_first
from fusiondoc.whole_files import open_regular

_LOOKED_BACK = 1 << 19
"""Bytes at the end of a chunk in which the begin of a message is looked for, or that of a kernel's source:
one of nvFuser has 240 KB."""


class Part(NamedTuple):
    """Whole lines of the log."""

    read: int
    """Bytes that were read for it, without those that were cut."""
    cut: list[tuple[int, bool]]
    """As ``read_chunks`` tells them."""
    place: int | None
    """Where it begins in the file, if it stands there: but for what :func:`clean` removes. It ends at
    ``Parts.begins`` once it is read."""
    text: bytes
    may_leave: int
    """Its lines from here on may be read with the next part; those before were left already."""


class Parts:
    """The parts of a log; none of one that several processes wrote."""

    def __init__(self, log: LogInput) -> None:
        self._log = log
        self.rest = b""
        """What was read and is of the next part."""
        self.begins = 0
        """Where that begins in the file."""
        self._chunk = self._text = b""
        """What was read last, and its text."""
        self._from = 0
        """Where it begins in the file."""

    def __iter__(self) -> Iterator[Part]:
        cut: list[tuple[int, bool]] = []
        as_it_is = _stands_as_it_is(self._log)
        end, rest_there = 0, True
        for index, chunk in enumerate(read_chunks(self._log, lambda size, first: cut.append((size, first)))):
            text = clean(chunk)
            if not index and not is_plain(text):
                return
            there = as_it_is and not cut and chunk.endswith(b"\n")
            if text and not text.endswith(b"\n"):
                text += b"\n"
            end += len(chunk) + sum(size for size, _ in cut)
            self._chunk, self._text, self._from = chunk, text, end - len(chunk)
            place = self.begins if there and rest_there else None
            rest_there = there
            rest = self.rest
            at = _last_begin(text, max(0, len(text) - _LOOKED_BACK))
            self._leave_from(at)
            yield Part(len(chunk), list(cut), place, b"".join((rest, memoryview(text)[:at])), len(rest))
            cut.clear()
        if self.rest:
            rest, begins = self.rest, self.begins
            self.rest, self.begins = b"", end
            yield Part(0, [], begins if rest_there else None, rest, NEVER)

    def leave(self, part: Part, size: int) -> None:
        """What stands behind so many bytes of the text of the last part is of the next one."""
        if size < len(part.text):
            self._leave_from(size - part.may_leave)

    def _leave_from(self, at: int) -> None:
        self.rest = self._text[at:]
        begins = at
        if self._chunk.endswith(self.rest):
            begins = len(self._chunk) - len(self.rest)
        else:  # lines are the same, and their ends
            begins = len(self._chunk) - 1
            for _ in range(self._text.count(b"\n", at)):
                begins = self._chunk.rfind(b"\n", 0, begins)
            begins += 1
        self.begins = self._from + begins


def _last_begin(text: bytes, start: int) -> int:
    """Where the last message begins behind ``start`` on a line whose prefix is not that of the line before,
    or the last source of a kernel if there is none; the end of the text if there is neither."""
    line = text.rfind(b"\n[", start) + 1
    while line > 0:
        found = PREFIX.match(text, line)
        if found is not None:
            mark = b"\n" + found.group()
            line = _before_its_graph(text, line, mark, start) or _first_of_run(text, line, mark, start)
            if line > 0 and is_first(text, line + found.end() - found.start()):
                return line
        line = text.rfind(b"\n[", start, line - 1) + 1 if line > 0 else 0
    line = text.rfind(b"\n====", start) + 1
    while line > 0:
        if FRAME.match(text, line) is not None:
            return line
        line = text.rfind(b"\n====", start, line - 1) + 1
    return len(text)


def _before_its_graph(text: bytes, line: int, mark: bytes, start: int) -> int:
    """The line before the last graph up to that line behind ``mark`` (a line end and a prefix), if it is the
    first one of the prefix: nearly all long messages are graphs. Else 0."""
    graph = text.rfind(mark + b" graph(", start, line)
    header = text.rfind(b"\n", start, graph) if graph >= 0 else -1
    if header < 0 or not text.startswith(mark, header):
        return 0
    before = text.rfind(b"\n", start, header)
    return header + 1 if before >= 0 and not text.startswith(mark, before) else 0


_LINES = 1 << 12
"""Bytes of lines that are looked at together."""


def _first_of_run(text: bytes, line: int, mark: bytes, start: int) -> int:
    """The first of the lines up to that one which follow each other behind ``mark``, a line end and their
    prefix; 0 if it is not behind ``start``."""
    end = line - 1
    while end > start:
        before = max(start, end - _LINES)
        first = text.find(b"\n", before, end)
        if first >= 0 and text.count(b"\n", first, end) == text.count(mark, first, end + len(mark) - 1):
            end = first
            continue
        last = text.rfind(b"\n", start, end)
        if last >= 0 and not text.startswith(mark, last):
            return end + 1
        end = last
    return 0


def _stands_as_it_is(log: LogInput) -> bool:
    """Whether the bytes of the file are those of its lines: it is neither compressed nor UTF-16."""
    if log.path is None or log.is_packed:
        return False
    with open_regular(log.path) as file:
        return utf16_decoder(file.read(1 << 13)) is None
