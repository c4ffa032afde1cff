"""Lines of the logs as text again, for a report that shows what proves it. Reads the logs once more, and only
as far as it must; stdin cannot be read again."""

from __future__ import annotations

from typing import Iterable, Sequence

from fusiondoc.errors import FusiondocError
from fusiondoc.model.report import Evidence
from fusiondoc.parsers.jit.messages import PREFIX
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.ranks import Tag
from fusiondoc.parsers.lines.tagged_lines import tagged_lines

MOST_LINE = 600
"""Characters of a line that are kept."""

MOST_GRAPH = 300
"""Lines of a graph that are kept."""

_END = "  return ("


def excerpts(
    logs: Sequence[LogInput], lines: Iterable[Evidence], graphs: Iterable[Evidence]
) -> dict[Evidence, str]:
    """The text of ``lines``, and of the graphs that begin on the lines ``graphs`` (up to their return).

    Without colours, ranks and times before each line, and without torch's ``[DUMP file:line]``. A log that
    cannot be read again gives nothing.
    """
    found: dict[Evidence, str] = {}
    singles: dict[str, set[int]] = {}
    starts: dict[str, set[int]] = {}
    for wanted, places in ((singles, lines), (starts, graphs)):
        for place in places:
            wanted.setdefault(place.file, set()).add(place.line)
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


def _read(log: LogInput, singles: set[int], starts: set[int], found: dict[Evidence, str]) -> None:
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

    def __init__(self, stream: bytes, first: str, place: Evidence, found: dict[Evidence, str]) -> None:
        self._stream = stream
        self._lines = [first[:MOST_LINE]]
        self._place = place
        self._found = found

    def take(self, stream: bytes, text: str) -> bool:
        """A line after the first; True when the graph has ended."""
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
        self._found[self._place] = "\n".join(self._lines)


def _bare(tag: Tag, line: bytes) -> tuple[bytes, str]:
    """What tells the stream of a line (its process, the file of torch that prints), and the line itself."""
    stream = b"" if tag is None else tag + b" "
    found = PREFIX.match(line)
    if found is not None:
        stream += found.group(1)
        line = line[found.end() :]
        line = line[1:] if line.startswith(b" ") else line
    return stream, line.decode("utf-8", "replace")
