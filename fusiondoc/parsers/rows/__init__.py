"""Turns the facts of a log into the rows of a report: groups, unfused operators,
kernels.

This module holds the evidence of all rows: line numbers of the logs, which stay
packed until they are read, and the text of those lines, for a report that shows its
evidence. To get the texts the logs are read a second time, up to the last line that
is needed; stdin cannot be read again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import lt
from typing import overload

from fusiondoc.errors import FusiondocError
from fusiondoc.model.report import Evidence
from fusiondoc.model.source import MOST_EVIDENCE
from fusiondoc.parsers.facts import unpack
from fusiondoc.parsers.jit.message_runs import PREFIX
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.tagged_lines import Tag, tagged_lines


class PackedEvidence(Sequence[Evidence]):
    """Lines in reading order, without duplicates. Compares equal to any sequence of
    the same evidence.

    An array that is already in order is not copied, nor are the arrays in ``more``:
    a line may occur there millions of times. Lines that are appended to those
    arrays later are not included.
    """

    __slots__ = ("_count", "_files", "_lines", "_parts")

    def __init__(
        self,
        lines: Sequence[int],
        files: Sequence[str],
        more: Sequence[array[int]] = (),
    ) -> None:
        own = lines if isinstance(lines, array) else array("Q", lines)
        parts = _Parts((own, *more)) if more else None
        lines = _once_in_order(parts.together() if parts is not None else own)
        self._files = files
        self._count = len(lines)
        self._lines = lines
        """All lines; if there are several arrays, the first lines only."""
        self._parts: _Parts | None = None
        if parts is not None and len(lines) > MOST_EVIDENCE:
            self._lines = lines[:MOST_EVIDENCE]
            self._parts = parts

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Evidence: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Evidence]: ...

    def __getitem__(self, index: int | slice) -> Evidence | Sequence[Evidence]:
        indexes = range(self._count)[index]
        if isinstance(indexes, int):
            return next(self._evidence((self._with(indexes)[indexes],)))
        lines = self._with(max(indexes, default=0))
        return tuple(self._evidence(lines[index] for index in indexes))

    def __iter__(self) -> Iterator[Evidence]:
        return self._evidence(islice(self._with(self._count - 1), self._count))

    def _with(self, index: int) -> array[int]:
        """Return the lines in order, at least up to ``index``."""
        if self._parts is None or index < len(self._lines):
            return self._lines
        return _once_in_order(self._parts.together())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PackedEvidence({list(self)!r})"

    def _evidence(self, positions: Iterable[int]) -> Iterator[Evidence]:
        files = self._files
        for file, line in map(unpack, positions):
            yield Evidence(files[file], line)


class _Parts:
    """Arrays of lines, each with the length that it had when this object was
    made."""

    __slots__ = ("_parts", "_sizes")

    def __init__(self, parts: Sequence[array[int]]) -> None:
        self._parts = parts
        self._sizes = array("Q", map(len, parts))

    def together(self) -> array[int]:
        lines = array("Q")
        for part, size in zip(self._parts, self._sizes):
            lines.extend(part if len(part) == size else part[:size])
        return lines


def _once_in_order(lines: array[int]) -> array[int]:
    """Return the lines sorted, without duplicates: the same object if they are that
    already."""
    if _rises(lines):
        return lines
    ordered = sorted(lines)
    return array("Q", ordered if _rises(ordered) else dict.fromkeys(ordered))


def _rises(lines: Sequence[int]) -> bool:
    return all(map(lt, lines, islice(lines, 1, None)))


MOST_LINE = 600
"""Number of characters of a line that are kept."""

MOST_GRAPH = 300
"""Number of lines of a graph that are kept."""

_END = "  return ("


def excerpts(
    logs: Sequence[LogInput], lines: Iterable[Evidence], graphs: Iterable[Evidence]
) -> dict[Evidence, str]:
    """Return the text of ``lines``, and of the graphs that begin on the lines
    ``graphs`` (up to their return).

    Colours, ranks and times before each line, and torch's ``[DUMP file:line]``, are
    removed. Lines of a log that cannot be read again are missing from the result.
    """
    found: dict[Evidence, str] = {}
    singles: dict[str, set[int]] = {}
    starts: dict[str, set[int]] = {}
    for wanted, positions in ((singles, lines), (starts, graphs)):
        for position in positions:
            wanted.setdefault(position.file, set()).add(position.line)
    done = set()
    for log in logs:
        of_log = singles.get(log.name, set()), starts.get(log.name, set())
        if log.path is None or log.name in done or not any(of_log):
            continue
        done.add(log.name)
        try:
            _read(log, *of_log, found)
        except (FusiondocError, OSError):
            continue
    return found


def _read(
    log: LogInput, singles: set[int], starts: set[int], found: dict[Evidence, str]
) -> None:
    last = max(singles | starts)
    reading: list[_Graph] = []
    for number, tag, line in tagged_lines(log):
        if number > last and not reading:
            return
        if not reading and number not in singles and number not in starts:
            continue
        stream, text = _bare(tag, line)
        if number in singles:
            found[Evidence(log.name, number)] = text[:MOST_LINE].strip()
        reading = [graph for graph in reading if not graph.take(stream, text)]
        if number in starts:
            reading.append(_Graph(stream, text, Evidence(log.name, number), found))
    for graph in reading:
        graph.end()


class _Graph:
    """A graph that is being read: lines of its own stream, until it returns."""

    def __init__(
        self, stream: bytes, first: str, start: Evidence, found: dict[Evidence, str]
    ) -> None:
        self._stream = stream
        self._lines = [first[:MOST_LINE]]
        self._start = start
        self._found = found

    def take(self, stream: bytes, text: str) -> bool:
        """Add a line after the first; return True when the graph has ended."""
        if stream != self._stream:
            return False
        if not text.startswith(" "):
            self.end()
            return True
        self._lines.append(text[:MOST_LINE])
        if text.startswith(_END) or len(self._lines) > MOST_GRAPH:
            self.end()
            return True
        return False

    def end(self) -> None:
        if len(self._lines) > MOST_GRAPH:
            self._lines.append("  ... (cut; the log has the rest)")
        self._found[self._start] = "\n".join(self._lines)


def _bare(tag: Tag, line: bytes) -> tuple[bytes, str]:
    """Return the stream of a line (its process and the file of torch that prints
    it), and the line without that prefix."""
    stream = b"" if tag is None else tag + b" "
    found = PREFIX.match(line)
    if found is not None:
        stream += found.group(1)
        line = line[found.end() :]
        line = line[1:] if line.startswith(b" ") else line
    return stream, line.decode("utf-8", "replace")
