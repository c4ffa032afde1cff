"""The graphs that a log prints, one after the other, each with the log's own line numbers.

The report keeps where a group was printed, not the graph. This reads the log once more and gives whole prints
back: a graph with its ``with`` sections, taken out of the other lines that may stand between its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator

from fusiondoc.parsers.jit.messages import PREFIX
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.ranks import Tag
from fusiondoc.parsers.lines.tagged_lines import tagged_lines

_FOREIGN = 40
"""Lines of something else after which a graph without a prefix is over."""
_CONTINUES = (b" ", b"with ", b"-> (", b"[ ")


@dataclass
class GraphPrint:
    """``lines`` of one graph and its sections; ``first`` and ``last`` are its lines in the log. ``header`` is
    the text of the message before it, '' for a bare print."""

    header: str
    first: int
    last: int = 0
    lines: list[bytes] = field(default_factory=list)
    foreign: int = 0


def graph_prints(log: LogInput) -> Iterator[GraphPrint]:
    """Every graph print of a log, in the order in which they end."""
    opened: dict[tuple[Tag, bytes], GraphPrint] = {}
    headers: dict[tuple[Tag, bytes], str] = {}
    for number, tag, line in tagged_lines(log):
        found = PREFIX.match(line)
        prefix = found.group() if found is not None else b""
        key = (tag, prefix)
        text = line[len(prefix) + 1 :] if prefix else line
        current = opened.get(key)
        at = text.find(b"graph(")
        starts = at == 0 or (prefix and at > 0 and not text.startswith(_CONTINUES))
        if starts:
            if current is not None:
                yield opened.pop(key)
            header = text[:at].decode("utf-8", "replace").strip() or headers.pop(key, "")
            opened[key] = GraphPrint(header, number, number, [text[at:]])
        elif current is None:
            if prefix and text.strip() and not text.startswith(_CONTINUES):
                headers[key] = text.decode("utf-8", "replace").strip()
        elif text.startswith(_CONTINUES):
            current.lines.append(text)
            current.last = number
            current.foreign = 0
        elif prefix and text.strip():
            headers[key] = text.decode("utf-8", "replace").strip()
            yield opened.pop(key)
        elif not prefix:
            current.foreign += 1
            if current.foreign > _FOREIGN or current.lines[-1].startswith(b"  return ("):
                yield opened.pop(key)
    yield from opened.values()
