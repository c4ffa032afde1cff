"""Logs as other people have them: what CI systems, launchers, containers, loggers, terminals and files put
around the lines of a log. Each decoration changes rows, which remember the line of the clean log that they
came from, so evidence can be compared line by line. Nothing here uses the parsers.

Forms: GitHub Actions (raw log), GitLab (FF_TIMESTAMPS), Jenkins Timestamper, Buildkite (``\\x1b_bk;t=``),
Docker's json-file, docker compose (with and without colours and ``--timestamps``), kubectl ``--prefix``,
CRI files of containerd, torchrun ``--tee``, ``srun -l``, mpirun ``--tag-output``, journald, Ray, Python's
logging.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

Row = tuple[bytes, int]
"""Its text, and the line of the clean log that it is of, from 1."""
Change = Callable[[list[Row]], list[Row]]


class Where(IntEnum):
    """Who decorates, from the program outwards. One of a place stands around those
    of the places before it; colours and wraps may come between any two."""

    PROGRAM = 0
    LAUNCHER = 1
    CONTAINER = 2
    COLLECTOR = 3
    ANYWHERE = 4
    FILE = 5


@dataclass(frozen=True)
class Decoration:
    """One thing that a tool does to the lines of a log."""

    name: str
    where: Where
    change: Change
    ranked: bool = False
    """It tags each line with a rank."""
    wraps: bool = False
    """It breaks lines."""


_OF_JIT_LOG = (b"[DUMP ", b"[UPDATE ", b"[DEBUG ")
"""torch writes it to stderr, dumps of kernels to stdout."""


def before_each_row(text: str) -> Change:
    """``{minute}``, ``{second}`` and ``{milli}`` count on from row to row;
    ``{stream}`` is "err" or "out"."""

    def change(rows: list[Row]) -> list[Row]:
        made = []
        for number, (row, line) in enumerate(rows):
            at = {
                "minute": number // 600 % 60,
                "second": number // 10 % 60,
                "milli": number % 10 * 100 + 7,
            }
            stream = "err" if any(mark in row for mark in _OF_JIT_LOG) else "out"
            made.append(
                (
                    text.format(
                        stream=stream, letter="EO"[stream == "out"], **at
                    ).encode()
                    + row,
                    line,
                )
            )
        return made

    return change


def around_each_row(start: bytes, end: bytes) -> Change:
    return lambda rows: [(start + row + end, line) for row, line in rows]


_WORDS = re.compile(rb"aten::\w+|\bprim::\w+|\bgraph\b|\bcond\b|\bkernel\d+")


def around_words(start: bytes, end: bytes) -> Change:
    """As ``grep --color`` and highlighters of logs do."""
    return lambda rows: [
        (_WORDS.sub(lambda found: start + found[0] + end, row), line)
        for row, line in rows
    ]


def wrapped_bytes(width: int) -> Change:
    """A tool that cuts at so many bytes, escape sequences and prefixes among
    them."""

    def change(rows: list[Row]) -> list[Row]:
        return [
            (row[at : at + width], line)
            for row, line in rows
            for at in range(0, max(len(row), 1), width)
        ]

    return change


def wrapped_columns(width: int, drop: bool = False) -> Change:
    """A terminal: what it does not show takes no column. ``drop``: blanks at the
    end of a row are gone."""

    def change(rows: list[Row]) -> list[Row]:
        made: list[Row] = []
        for row, line in rows:
            done, shown = "", 0
            parts: list[str] = []
            for found in _PIECES.finditer(row.decode("utf-8", "surrogateescape")):
                visible = not found[0].startswith("\x1b")
                if visible and shown == width:
                    parts.append(done)
                    done, shown = "", 0
                done += found[0]
                shown += visible
            parts.append(done)
            for part in parts:
                text = _BLANKS_AT_END.sub("", part) if drop else part
                made.append((text.encode("utf-8", "surrogateescape"), line))
        return made

    return change


_PIECES = re.compile(
    "(?:\x1b\\[[0-?]*[ -/]*[@-~]|\x1b_[^\x07]*\x07|\x1b\\(B)+|.", re.S
)
_BLANKS_AT_END = re.compile("[ ]+(?=(?:\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\(B)*$)")


def partial_lines(most: int) -> Change:
    """As containerd writes what a container prints: a line that is too long comes
    in tagged parts."""

    def change(rows: list[Row]) -> list[Row]:
        made = []
        for number, (row, line) in enumerate(rows):
            stream = b"err" if any(mark in row for mark in _OF_JIT_LOG) else b"out"
            stamp = b"2024-05-01T12:%02d:%02d.%09dZ std%s " % (
                number // 60 % 60,
                number % 60,
                number,
                stream,
            )
            parts = [row[at : at + most] for at in range(0, max(len(row), 1), most)]
            made += [
                (stamp + (b"F " if n == len(parts) else b"P ") + part, line)
                for n, part in enumerate(parts, 1)
            ]
        return made

    return change


def json_objects(most: int, **fields: str) -> Change:
    """As Docker's json-file driver writes them: a line that is too long comes in
    several objects, of which the last has the line end."""

    def change(rows: list[Row]) -> list[Row]:
        made = []
        for number, (row, line) in enumerate(rows):
            text = row.decode("utf-8", "surrogateescape") + "\n"
            stream = (
                "stderr" if any(mark in row for mark in _OF_JIT_LOG) else "stdout"
            )
            time = (
                f"2024-05-01T12:{number // 60 % 60:02}:{number % 60:02}.123456789Z"
            )
            for at in range(0, len(text), most):
                value = {
                    "log": text[at : at + most],
                    "stream": stream,
                    **fields,
                    "time": time,
                }
                escaped = (
                    json.dumps(value, separators=(",", ":"))
                    .replace("<", "\\u003c")
                    .replace(">", "\\u003e")
                )
                made.append((escaped.encode(), line))
        return made

    return change


def _stamp(name: str, where: Where, text: str, **more: bool) -> Decoration:
    return Decoration(name, where, before_each_row(text), **more)


DECORATIONS = (
    _stamp("logging", Where.PROGRAM, "INFO:train:"),
    _stamp(
        "logging with times",
        Where.PROGRAM,
        "2024-05-01 12:{minute:02}:{second:02},{milli:03} - train - INFO - ",
    ),
    _stamp(
        "hydra",
        Where.PROGRAM,
        "[2024-05-01 12:{minute:02}:{second:02},{milli:03}][train][INFO] - ",
    ),
    _stamp("torchrun", Where.LAUNCHER, "[default0]:", ranked=True),
    _stamp("rank", Where.LAUNCHER, "[rank0]: ", ranked=True),
    _stamp("srun", Where.LAUNCHER, "0: ", ranked=True),
    _stamp("mpirun", Where.LAUNCHER, "[1,0]<std{stream}>:", ranked=True),
    _stamp("ray", Where.LAUNCHER, "\x1b[36m(train pid=4242)\x1b[0m "),
    _stamp("compose", Where.CONTAINER, "trainer-1  | "),
    _stamp("compose in colours", Where.CONTAINER, "\x1b[36mtrainer-1  | \x1b[0m"),
    _stamp(
        "compose with times",
        Where.CONTAINER,
        "trainer-1  | 2024-05-01T12:{minute:02}:{second:02}.{milli:03}456789Z ",
    ),
    _stamp("kubectl", Where.CONTAINER, "[pod/trainer-0/main] "),
    Decoration(
        "docker's objects", Where.CONTAINER, json_objects(16384), wraps=True
    ),
    Decoration(
        "docker's objects, cut", Where.CONTAINER, json_objects(150), wraps=True
    ),
    Decoration("containerd", Where.CONTAINER, partial_lines(150), wraps=True),
    _stamp(
        "journald",
        Where.CONTAINER,
        "May 01 12:{minute:02}:{second:02} host python[4242]: ",
    ),
    _stamp(
        "github",
        Where.COLLECTOR,
        "2024-05-01T12:{minute:02}:{second:02}.{milli:03}4567Z ",
    ),
    _stamp(
        "gitlab",
        Where.COLLECTOR,
        "2024-05-01T12:{minute:02}:{second:02}.{milli:03}456Z 01{letter} ",
    ),
    _stamp(
        "jenkins",
        Where.COLLECTOR,
        "[2024-05-01T12:{minute:02}:{second:02}.{milli:03}Z] ",
    ),
    _stamp("jenkins clock", Where.COLLECTOR, "12:{minute:02}:{second:02}  "),
    _stamp(
        "buildkite",
        Where.COLLECTOR,
        "\x1b_bk;t=17145648{minute:02}{second:02}{milli:03}\x07",
    ),
    Decoration("yellow", Where.ANYWHERE, around_each_row(b"\x1b[33m", b"\x1b[0m")),
    Decoration("reset", Where.ANYWHERE, around_each_row(b"", b"\x1b(B\x1b[m")),
    Decoration(
        "words", Where.ANYWHERE, around_words(b"\x1b[01;31m\x1b[K", b"\x1b[m\x1b[K")
    ),
    *(
        Decoration(
            f"{width} columns", Where.ANYWHERE, wrapped_columns(width), wraps=True
        )
        for width in (80, 120, 200)
    ),
    *(
        Decoration(
            f"{width} bytes", Where.ANYWHERE, wrapped_bytes(width), wraps=True
        )
        for width in (80, 120, 200)
    ),
    Decoration(
        "80 columns without blanks",
        Where.ANYWHERE,
        wrapped_columns(80, drop=True),
        wraps=True,
    ),
    Decoration(
        "crlf", Where.FILE, lambda rows: [(row + b"\r", line) for row, line in rows]
    ),
    Decoration(
        "bom",
        Where.FILE,
        lambda rows: [(b"\xef\xbb\xbf" + rows[0][0], rows[0][1]), *rows[1:]],
    ),
    Decoration("utf-16", Where.FILE, lambda rows: rows),
)
BY_NAME = {one.name: one for one in DECORATIONS}
Order = tuple[Decoration, ...]


def occurs(order: Order) -> bool:
    """Whether tools stand around each other so: one of each place at most, outer
    ones later, files last."""
    fixed = [one.where for one in order if one.where is not Where.ANYWHERE]
    return all(
        a < b or a is b is Where.FILE for a, b in itertools.pairwise(fixed)
    ) and (
        not any(one.where is Where.FILE for one in order)
        or [one.where is Where.FILE for one in order]
        == sorted(one.where is Where.FILE for one in order)
    )


def orders(number: int) -> Iterator[Order]:
    """All orders of so many different decorations that occur."""
    return (
        order
        for order in itertools.permutations(DECORATIONS, number)
        if occurs(order)
    )


def sampled_orders(number: int, count: int, seed: int) -> list[Order]:
    """So many orders of that many decorations, at random."""
    rng = random.Random(seed)
    found: list[Order] = []
    while len(found) < count:
        order = tuple(rng.sample(DECORATIONS, number))
        if occurs(order):
            found.append(order)
    return found


def rows_of(log: bytes) -> list[Row]:
    return [
        (row, line) for line, row in enumerate(log.rstrip(b"\n").split(b"\n"), 1)
    ]


def decorated(log: bytes, order: Sequence[Decoration]) -> tuple[bytes, list[int]]:
    """The log behind these decorations, and of each of its lines the line of the
    clean log."""
    rows = rows_of(log)
    for decoration in order:
        rows = decoration.change(rows)
    text = b"".join(row + b"\n" for row, _ in rows)
    if any(one.name == "utf-16" for one in order):
        text = b"\xff\xfe" + text.removeprefix(b"\xef\xbb\xbf").decode(
            "utf-8", "replace"
        ).encode("utf-16-le")
    return text, [line for _, line in rows]
