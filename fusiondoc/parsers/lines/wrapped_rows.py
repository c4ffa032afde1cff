"""Joins lines that a terminal or a tool has broken into rows.

A row with the maximal width is full: the next row continues its line, unless it
looks like the beginning of a line. The width is learnt from lines of torch, each of
which begins with the file that prints it; a row that was broken off does not. Tools
may wrap each other: a prefix that was added last precedes each row, and a prefix
that was there before the rows were broken precedes each line. Which of both is true
is learnt together with the width.

Containerd and GitLab mark the pieces of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from fusiondoc.parsers.lines.held_line import HeldLine
from fusiondoc.parsers.lines.outer_prefix import BEGINS, OuterPrefix

_LEAST_WIDTH = 40
"""Number of characters; in a narrower row a mark of torch would not fit."""

_LEAST_ROWS = 3
"""Number of full rows of torch that continue in the next row, from which the width
is learnt."""

_MOST_LAYERS = 3
"""A log may be broken by one tool and then by another."""

_USUAL_WIDTHS = (80, 100, 120, 132, 160, 200, 240)
"""Usual widths of terminals. Rows of sources and dumps may all be full, but seldom
have one of these widths."""

_MOST_DROPPED = 8
"""Number of blanks at the end of a row that a terminal may drop: no line of torch
has more in a row."""

_COMPARED = 2000
"""Number of rows of a sample from which the position of a prefix is learnt."""

_DIGITS = re.compile(rb"\d+")
ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX\]^_][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)|[ -/][0-~]|[0-OQ-WYZ`-~])"
)
"""Control sequences of ECMA-35 and ECMA-48 that begin with the escape character:
colours, links (``\\x1b]8;;...``), Buildkite's times (``\\x1b_bk;t=...``), the
output of ``tput sgr0`` (``\\x1b(B``)."""
_ENDS_OF_STATEMENTS = (b";", b"{", b"}")
_STARTS_OF_STATEMENTS = (b"  ", b"}")
"""A line of a kernel's source may be as long as a full row."""
_START_IN_DUMP = re.compile(rb" {3}= |T\d+_[a-z]\[ | root domain : ")
_ENDS_IN_DUMP = (b")", b"]", b";", b"}")
"""A statement of a dump of intermediate code may also be as long as a full row."""
_END_OF_BLOCK = re.compile(rb" {2,}\}$")
_ENDS = re.compile(rb" =======$|Smem Size = \d+$| GB/s$")
"""Ends of lines of dumps, which all have one length if there are few kernels: they
are not broken rows."""
_RULE = re.compile(rb"[-+|=*#~_]$")
"""Ends of rules and tables of a program, which are often 80 characters wide."""
_RULE_END = re.compile(rb"([-+=*#~_])\1{3}$")
"""The end of a rule of the program, unless the next row begins with the same
character."""
_OPENS = re.compile(rb"(?: {2}%[^\s,:)]+ : |__global__ void )[^#\n]*")
"""A node or a parameter of a graph, or the head of a kernel, all of which contain
brackets."""
_OF_SOURCE = re.compile(rb" # \S[^\n]*$")
_SOURCE = re.compile(rb":\d+:\d+$")
"""The source position of a node."""
_START = 8
"""Number of characters, with each number as one, in which rows that begin alike
must agree."""


class WrappedRows:
    """Joins the rows of a log to lines.

    Args: width: width of a full row, without the prefix. prefix: an outer prefix of
    each row; None without one. begins: a prefix of each line after the outer
    prefix; None without one. inner: other rows were joined before; rows that they
    left empty belong to the row before them. dropped: blanks at the end of a row
    are missing.
    """

    def __init__(
        self,
        width: int,
        prefix: OuterPrefix | None = None,
        begins: OuterPrefix | None = None,
        inner: bool = False,
        dropped: bool = False,
    ) -> None:
        self._width = width
        self._dropped = dropped
        self._prefix = prefix
        self._line_begins = begins
        self._inner = inner
        self._held = HeldLine()
        self._start = b""
        """Beginning of the held line's first row."""
        self._blanks = 0
        """Number of blanks dropped at the end of the last row."""

    def joined(self, text: bytes) -> bytes:
        """Turn whole rows into lines. A line that may continue is held back until
        the next call, or ``rest``."""
        lines: list[bytes] = []
        held = self._held
        for row in text[:-1].split(b"\n"):
            prefix, content = _split(self._prefix, row)
            if self._inner and not row:
                if held.rows:
                    held.goes_on(b"")
                else:
                    lines.append(row)
                continue
            if held.rows and not self._begins(prefix, content):
                held.goes_on(b" " * self._blanks + content)
            else:
                lines += held.released()
                held.begin(row)
                self._start = _start(content)
            self._blanks = self._width - len(content)
            if self._blanks and not (
                self._dropped and _may_lack(held.so_far, self._blanks)
            ):
                lines += held.released()
        return b"".join(line + b"\n" for line in lines)

    def rest(self) -> bytes:
        """Return the line that was held back at the end of the log."""
        return self._held.end()

    def _begins(self, prefix: bytes | None, content: bytes) -> bool:
        """True if a row after a full row begins a new line."""
        if (
            prefix is None
            or not content
            or begins(self._start, self._line_begins, content)
        ):
            return True
        rule = _RULE_END.search(self._held.so_far)
        if rule is not None and not content.startswith(rule.group(1)):
            return True
        line = self._held.so_far
        if BEGINS.search(line) is not None:
            return False
        if _END_OF_BLOCK.match(content) is not None:
            return not line.endswith(b"{")
        if _START_IN_DUMP.match(content) is not None and line.endswith(
            _ENDS_IN_DUMP
        ):
            return True
        return line.endswith(_ENDS_OF_STATEMENTS) and content.startswith(
            _STARTS_OF_STATEMENTS
        )


def _may_lack(line: bytes, blanks: int) -> bool:
    """True if this number of blanks may have been dropped at the end of the line's
    last row."""
    if BEGINS.search(line) is not None:
        return 0 < blanks <= _MOST_DROPPED
    return blanks == 1 and not line.endswith(_ENDS_OF_STATEMENTS)


def _split(prefix: OuterPrefix | None, row: bytes) -> tuple[bytes | None, bytes]:
    if prefix is not None:
        return prefix.split(row)
    return b"", row


def _start(row: bytes) -> bytes:
    """Return the first characters of a row, without colours and with each number as
    one."""
    head = row[: 6 * _START]
    if b"\x1b" in head:
        head = ESCAPES.sub(b"", head)
    return _DIGITS.sub(b"0", head[: 3 * _START])[:_START]


def begins(start: bytes, line_begins: OuterPrefix | None, row: bytes) -> bool:
    """True if a row is the first of a line: it has the prefix of lines, begins like
    the previous line, or is a line of torch."""
    if line_begins is not None and line_begins.split(row)[0] is not None:
        return True
    return _start(row) == start or BEGINS.match(row) is not None


class _Learnt(NamedTuple):
    rows: WrappedRows
    going_on: int
    """Number of full rows of the sample that continue in the next row."""


def learn_rows(
    lines: Sequence[bytes], whole: OuterPrefix | None = None, inner: bool = False
) -> _Learnt | None:
    """Return how a sample of a log is broken into rows; None if its lines are
    whole. ``whole``: the complete prefix of torch's lines in it."""
    best: _Learnt | None = None
    for prefix, line_begins in (
        whole.cuts() if whole is not None else ((None, None),)
    ):
        found = _rows_behind(islice(lines, _COMPARED), prefix, line_begins, inner)
        if found is not None and (best is None or found.going_on > best.going_on):
            best = found
    return best


def _rows_behind(
    lines: Iterable[bytes],
    prefix: OuterPrefix | None,
    line_begins: OuterPrefix | None,
    inner: bool,
) -> _Learnt | None:
    """The same as ``learn_rows`` for a given prefix of each row."""
    rows: list[bytes] = []
    for line in lines:
        before, row = _split(prefix, line)
        if before is not None:
            rows.append(row)
    width = max(map(len, rows), default=0)
    if width < _LEAST_WIDTH:
        return None
    full = _full_rows(rows, width)
    broken = [
        row
        for row, following in full
        if following and not begins(_start(row), line_begins, following)
    ]
    going_on = len(broken)
    often = going_on >= _LEAST_ROWS and going_on * 2 >= len(full)
    if not often and not any(map(_is_unfinished, broken)):
        return None
    dropped = not any(row.endswith(b" ") for row in rows)
    return _Learnt(
        WrappedRows(width, prefix, line_begins, inner, dropped), going_on
    )


def _is_unfinished(row: bytes) -> bool:
    """True if a node or a parameter of a graph, or the head of a kernel, is
    incomplete in the row."""
    found = _OPENS.search(row)
    if found is None:
        return False
    if found[0].count(b"(") > found[0].count(b")"):
        return True
    return (
        _OF_SOURCE.match(row, found.end() - 1) is not None
        and _SOURCE.search(row) is None
    )


def _full_rows(rows: Sequence[bytes], width: int) -> list[tuple[bytes, bytes]]:
    """Return each full row of torch that may continue, with the next row. Without
    any full row of torch return other full rows; of rows that begin and end alike
    only one, since a program may print lines of one width."""
    full = [
        (row, following)
        for row, following in pairwise(rows)
        if len(row) == width and BEGINS.search(row) is not None
    ]
    if not full and width in _USUAL_WIDTHS:
        others = {
            (_start(row), _DIGITS.sub(b"0", row)[-_START:]): (row, following)
            for row, following in pairwise(rows)
            if len(row) == width
            and (_RULE.search(row) is None or _is_unfinished(row))
        }
        return list(others.values())
    return [pair for pair in full if _ENDS.search(pair[0]) is None]


_GOES_ON = re.compile(rb" std(out|err) P $")
"""The mark of containerd: the row continues in the next row of its stream."""
_GOES_ON_FROM = re.compile(rb"Z \d\d[EO]\+$")
"""The mark of GitLab: the row continues the previous one."""
_MARKED_PIECE = re.compile(
    rb"^(.{0,200}(?: std(?:out|err) [FP] |Z \d\d[EO][ +]))(?=(.*))", re.DOTALL
)
_PIECE_MARKS = (b" stderr P ", b" stdout P ", b"E+", b"O+")


class MarkedPieces:
    """Joins pieces of lines that a container's log or a CI system marks as
    pieces."""

    def __init__(self) -> None:
        self._held = HeldLine()
        self._unfinished = False

    def joined(self, text: bytes) -> bytes:
        """The same as ``WrappedRows.joined``."""
        if not self._held.rows and not any(mark in text for mark in _PIECE_MARKS):
            return text
        lines: list[bytes] = []
        held = self._held
        for row in text[:-1].split(b"\n"):
            found = _MARKED_PIECE.match(row)
            if found is not None:
                before, content = found.group(1), found.group(2)
            else:
                before, content = b"", row
            if held.rows and not row:
                held.goes_on(b"")
                continue
            if (
                held.rows
                and found is not None
                and (self._unfinished or _GOES_ON_FROM.search(before))
            ):
                held.goes_on(content)
            else:
                lines += held.released()
                held.begin(_GOES_ON.sub(rb" std\1 F ", before) + content)
            self._unfinished = _GOES_ON.search(before) is not None
        return b"".join(line + b"\n" for line in lines)

    def rest(self) -> bytes:
        """The same as ``WrappedRows.rest``."""
        return self._held.end()


Layer = WrappedRows | MarkedPieces


class NestedWraps:
    """The rows of a log that one tool has broken, and then another: the rows of the
    last tool are joined first."""

    def __init__(
        self,
        layers: Sequence[Layer] = (),
        going_on: int = 0,
        before_rows: OuterPrefix | None = None,
    ) -> None:
        self._layers = layers
        self.going_on = going_on
        """Number of full rows of the sample that continue in the next row, for the
        first layer with a known width."""
        self.before_rows = before_rows
        """The prefix of all rows of the sample, or of torch's lines in it. Valid if
        there are no layers."""

    def __bool__(self) -> bool:
        return bool(self._layers)

    @classmethod
    def learn(cls, sample: Sequence[bytes]) -> NestedWraps:
        """Return the layers of a sample; no layer if its lines are whole."""
        layers: list[Layer] = []
        lines = list(sample)
        going_on = 0
        whole: OuterPrefix | None = None
        while len(layers) < _MOST_LAYERS:
            layer: Layer | None = None
            marked = 0.0
            if not any(isinstance(one, MarkedPieces) for one in layers):
                marked = _marked_share(lines)
            if marked < 1:  # else each row is a piece
                whole = OuterPrefix.learn(
                    lines, BEGINS
                ) or OuterPrefix.of_every_line(lines)
                found = learn_rows(lines, whole, inner=bool(layers))
                if found is not None:
                    layer = found.rows
                    going_on = going_on or found.going_on
            if layer is None and marked > 0.5:
                layer = MarkedPieces()
            if layer is None:
                break
            layers.append(layer)
            text = layer.joined(b"".join(line + b"\n" for line in lines))
            layer.rest()
            lines = [line for line in text.split(b"\n") if line]
        return cls(layers, going_on, whole)

    @property
    def of_pieces(self) -> NestedWraps | None:
        """The first layer alone, if it joins marked pieces; else None."""
        first = self._layers[:1]
        if any(isinstance(layer, MarkedPieces) for layer in first):
            return NestedWraps(first)
        return None

    def of(self, lines: Sequence[bytes]) -> list[bytes]:
        """Return the rows of a sample as whole lines."""
        if not self._layers:
            return list(lines)
        text = self.joined(b"".join(line + b"\n" for line in lines)) + self.rest()
        return [line for line in text.split(b"\n") if line]

    def joined(self, text: bytes) -> bytes:
        """Turn whole rows into lines; see ``WrappedRows.joined``."""
        if self._layers and not text.endswith(b"\n"):
            text += b"\n"
        return _joined(self._layers, text)

    def rest(self) -> bytes:
        """Return the lines that all layers held back: lines of a layer pass through
        the layers after it."""
        done = b""
        for number, layer in enumerate(self._layers):
            done += _joined(self._layers[number + 1 :], layer.rest())
        return done


def _marked_share(lines: Sequence[bytes]) -> float:
    """Return the share of rows with a mark of pieces; 0 if no row continues in
    another."""
    if not any(mark in line for line in lines for mark in _PIECE_MARKS):
        return 0.0
    return sum(_MARKED_PIECE.match(line) is not None for line in lines) / len(lines)


def _joined(layers: Iterable[Layer], text: bytes) -> bytes:
    for layer in layers:
        text = layer.joined(text) if text else text
    return text
