"""Lines that a terminal or a tool has broken at its width are put together again.

A row that is as long as the widest is full: the next row goes on with its line, unless it begins as a line
does. The width is learnt from lines of torch, each of which begins with the file that prints it: what was
broken off does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from fusiondoc.parsers.lines.outer_prefix import SAMPLE, OuterPrefix
from fusiondoc.parsers.lines.torn_lines import MARK

_LEAST_WIDTH = 40
"""Characters; below it a mark of torch would not fit in one row."""

_LEAST_ROWS = 3
"""Full rows of torch with something broken off, from which the width is learnt."""

_MOST_LAYERS = 3
"""A log may be broken by one tool and then by another."""

_TORCH = re.compile(rb"\[(?:DUMP|UPDATE|DEBUG) ")
_IS_TORCH = re.compile(MARK)
_DIGITS = re.compile(rb"\d+")
ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX\]^_][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)|[ -/][0-~]|[0-OQ-WYZ`-~])"
)
"""Control sequences, as in ECMA-35 and ECMA-48, that begin with the escape character: colours, links
(``\\x1b]8;;...``), Buildkite's times (``\\x1b_bk;t=...``), what ``tput sgr0`` prints (``\\x1b(B``)."""
_ENDS_OF_STATEMENTS = (b";", b"{", b"}")
_STARTS_OF_STATEMENTS = (b"  ", b"}")
"""A line of a kernel's source may be as long as a full row."""
_START = 8
"""Characters of a row, each number as one, by which two rows begin alike."""


class WrappedRows:
    """Puts the rows of a log together, each line at its first row, and an empty line for each other row: the
    numbers of all lines stay.

    Args:
        width: of a full row, without the prefix.
        prefix: an outer prefix that stands before each row; None where each line has one, or none has.
        inner: other rows were joined before: those that became empty belong to the row before them.
    """

    def __init__(self, width: int, prefix: OuterPrefix | None = None, inner: bool = False) -> None:
        self._width = width
        self._prefix = prefix
        self._inner = inner
        self._held = b""
        """The line whose last row is full, as far as it has come."""
        self._start = b""
        """How its first row begins."""
        self._rows = 0
        """That it is of; 0 if no line is held."""

    def joined(self, text: bytes) -> bytes:
        """Whole rows as lines. What may go on is held back until the next text, or ``rest``."""
        lines: list[bytes] = []
        for row in text[:-1].split(b"\n"):
            prefix, content = self._split(row)
            if self._inner and not row:
                if self._rows:
                    self._rows += 1
                else:
                    lines.append(row)
                continue
            if self._rows and not self._begins(prefix, content):
                self._held += content
                self._rows += 1
            else:
                lines += self._released()
                self._held, self._start, self._rows = row, _start(content), 1
            if len(content) != self._width:
                lines += self._released()
        return b"".join(line + b"\n" for line in lines)

    def rest(self) -> bytes:
        """The line that was held back at the end of the log."""
        return b"".join(line + b"\n" for line in self._released())

    def _split(self, row: bytes) -> tuple[bytes | None, bytes]:
        return self._prefix.split(row) if self._prefix is not None else (b"", row)

    def _begins(self, prefix: bytes | None, content: bytes) -> bool:
        """Whether a row behind a full one begins a line of its own."""
        if prefix is None or not content or begins_alike(self._start, content):
            return True
        return self._held.endswith(_ENDS_OF_STATEMENTS) and content.startswith(_STARTS_OF_STATEMENTS)

    def _released(self) -> list[bytes]:
        if not self._rows:
            return []
        lines = [self._held, *[b""] * (self._rows - 1)]
        self._held, self._rows = b"", 0
        return lines


def _start(row: bytes) -> bytes:
    """The first characters of a row, without colours and each number as one."""
    head = row[: 6 * _START]
    if b"\x1b" in head:
        head = ESCAPES.sub(b"", head)
    return _DIGITS.sub(b"0", head[: 3 * _START])[:_START]


def begins_alike(start: bytes, row: bytes) -> bool:
    """Whether a row begins as the line before did, or is a line of torch."""
    return _start(row) == start or _IS_TORCH.match(row) is not None


def learn_rows(
    lines: Iterable[bytes], prefix: OuterPrefix | None = None, inner: bool = False
) -> WrappedRows | None:
    """How a sample of a log is broken; None if its lines are whole."""
    rows: list[bytes] = []
    for line in lines:
        before, row = prefix.split(line) if prefix is not None else (b"", line)
        if before is not None:
            rows.append(row)
    width = max(map(len, rows), default=0)
    if width < _LEAST_WIDTH:
        return None
    full = going_on = 0
    for row, following in pairwise(rows):
        if len(row) == width and _TORCH.search(row) is not None:
            full += 1
            going_on += bool(following) and not begins_alike(_start(row), following)
    if going_on < _LEAST_ROWS or going_on * 2 < full:
        return None
    return WrappedRows(width, prefix, inner)


class Layers:
    """The rows of a log that one tool has broken, and then another: those of the last are joined first."""

    def __init__(self, layers: Sequence[WrappedRows] = ()) -> None:
        self._layers = layers

    @classmethod
    def learn(cls, sample: Sequence[bytes], prefix: OuterPrefix | None = None) -> Layers:
        """How a sample is broken; no layer if its lines are whole."""
        layers: list[WrappedRows] = []
        lines = list(sample)
        while len(layers) < _MOST_LAYERS:
            layer = learn_rows(lines, prefix, inner=bool(layers))
            if layer is None:
                break
            layers.append(layer)
            text = layer.joined(b"".join(line + b"\n" for line in lines))
            layer.rest()
            lines = [line for line in text.split(b"\n") if line]
        return cls(layers)

    @classmethod
    def of_first_rows(cls, text: bytes) -> Layers | None:
        """How a log is broken, by its rows from the first of torch on; None if there is none."""
        found = _TORCH.search(text)
        if found is None:
            return None
        start = text.rfind(b"\n", 0, found.start()) + 1
        return cls.learn(text[start:].rstrip(b"\n").split(b"\n", SAMPLE)[:SAMPLE])

    def joined(self, text: bytes) -> bytes:
        """Whole rows as lines; see ``WrappedRows.joined``."""
        if self._layers and not text.endswith(b"\n"):
            text += b"\n"
        return _joined(self._layers, text)

    def rest(self) -> bytes:
        """What all layers held back: that of one goes through those behind it."""
        done = b""
        for number, layer in enumerate(self._layers):
            done += _joined(self._layers[number + 1 :], layer.rest())
        return done

    def before(self, others: Layers) -> Layers:
        """These, and others behind them."""
        return Layers([*self._layers, *others._layers])


def _joined(layers: Iterable[WrappedRows], text: bytes) -> bytes:
    for layer in layers:
        text = layer.joined(text) if text else text
    return text
