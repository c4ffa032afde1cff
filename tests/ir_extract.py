"""Graphs out of raw logs, independent of the parsers under test: prefix off,
``graph(`` down to ``return (``."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

PREFIX = re.compile(
    rb"^(.*?)\[(?:DUMP|UPDATE|DEBUG) [A-Za-z0-9_]+\.(?:cpp|h|cu):\d{3,}\] (.*)$"
)
SINGLE_NODE = re.compile(
    rb"^(?:rejecting node[^:]*: |Considering node:|Trying to merge: )( *(?:%.*)?= \S.*)$"
)
OPENING = re.compile(rb"(?:^| )graph\(")


def payloads(log: bytes) -> Iterator[tuple[bytes, bytes]]:
    """What the JIT log wrote, line by line, with what stands before the prefix (a
    rank, for instance)."""
    for line in log.split(b"\n"):
        match = PREFIX.match(line)
        if match is not None:
            yield match[1], match[2]


def bodies(log: bytes) -> Iterator[bytes]:
    """Every graph that is whole; that of each ``with`` section by itself."""
    for dump in dumps(log):
        yield from re.split(rb"(?m)^with \S+ = (?=graph\()", dump)


def dumps(log: bytes) -> Iterator[bytes]:
    """Every whole graph print with its sections, from ``graph(`` on."""
    open_dumps: dict[bytes, list[bytes]] = {}
    inside: dict[bytes, bool] = {}
    for stream, text in payloads(log):
        opening = OPENING.search(text)
        section = text.startswith(b"with ")
        if not inside.get(stream) and stream in open_dumps and not section:
            yield b"\n".join(open_dumps.pop(stream)) + b"\n"
        if opening is not None and not section:
            open_dumps[stream] = [text[opening.end() - len(b"graph(") :]]
            inside[stream] = True
        elif stream in open_dumps:
            open_dumps[stream].append(text)
            inside[stream] = not text.startswith(b"  return (")
    for stream, lines in open_dumps.items():
        if not inside[stream]:
            yield b"\n".join(lines) + b"\n"


def distinct(
    folder: Path, what: Callable[[bytes], Iterable[bytes]] = bodies
) -> dict[bytes, str]:
    """Each distinct graph of all logs in a folder, with the name of the log that
    has it first."""
    found: dict[bytes, str] = {}
    for path in sorted([*folder.rglob("*.log"), *folder.rglob("*.log.xz")]):
        log = (
            lzma.decompress(path.read_bytes())
            if path.suffix == ".xz"
            else path.read_bytes()
        )
        for graph in what(log):
            found.setdefault(graph, str(path.relative_to(folder)))
    return found


def single_nodes(log: bytes) -> Iterator[bytes]:
    """The nodes that partition.cpp and tensorexpr_fuser.cpp print on a line of
    their own, after a header text."""
    for _, text in payloads(log):
        match = SINGLE_NODE.match(text)
        if match is not None:
            yield match[1]
