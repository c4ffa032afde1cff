"""Cells as text in the notation of a format: only here a cell's type becomes a
unit."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.rendering.blocks import Sentences, Table
from fusiondoc.rendering.timelines import sparkline
from fusiondoc.rendering.units import (
    TERMINAL,
    Notation,
    difference,
    digits,
    interval,
    megabytes,
    ratio,
    share,
    size,
    tenths,
    whole,
)
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    Duration,
    Extents,
    Factor,
    Gauge,
    IdLinks,
    Megabytes,
    Micros,
    Millis,
    Named,
    Quotes,
    Rate,
    ResultDifference,
    Seconds,
    Share,
    ShownPosition,
    ShownPositions,
    ShownReason,
    Snippet,
    Sparkline,
    Status,
    Text,
    Tone,
    Types,
)


def written(cell: Cell, notation: Notation) -> str:
    """Return the text of a cell without its interval."""
    match cell:
        case Text(text):
            return text
        case Status(word):
            return word
        case Count():
            return _count(cell, notation)
        case Millis(ms):
            return notation.known(ms, digits)
        case Duration(ms):
            return notation.known(ms, notation.duration)
        case Micros(ms):
            return notation.known(ms, _microseconds)
        case Seconds(value):
            return notation.known(value, _seconds)
        case Bytes(number):
            return notation.known(number, size)
        case Megabytes(number):
            return notation.known(number, megabytes)
        case Extents(extents):
            return notation.dimensions(extents)
        case Share(part):
            return notation.known(part, share)
        case Rate(rate):
            return notation.known(rate, whole)
        case Factor(factor):
            return notation.known(factor, ratio)
        case ResultDifference(value):
            return notation.known(value, difference)
        case IdLinks(ids, most):
            return _listed(ids, most)
        case Named(identifier, name):
            return f"{identifier} {name}"
        case Snippet(text):
            return text
        case Types():
            return _types(cell)
        case ShownPosition(where):
            return where
        case ShownPositions(positions):
            return _listed(
                tuple(position.where for position in positions), _MOST_POSITIONS
            )
        case Quotes():
            return _quoted(cell)
        case ShownReason(code, text):
            return f"{code} {text}"
        case Sparkline(values):
            return sparkline(values)
        case Gauge():
            return ""  # drawn as a picture; another cell of its row has the figure


def _count(cell: Count, notation: Notation) -> str:
    """Return ``1,024``, or ``5 (+2)`` with the difference from the number that it
    is compared with."""
    text = notation.count(cell.number)
    if cell.number is None or cell.base is None or cell.number == cell.base:
        return text
    return f"{text} ({cell.number - cell.base:+,})"


_MOST_POSITIONS = 3
"""Most source positions that are named in a format with one line for them."""


def _types(cell: Types) -> str:
    listed = "; ".join(short for short, _ in cell.types)
    if cell.size:
        return f"{listed}  = {cell.size}"
    return listed


def _quoted(cell: Quotes) -> str:
    """Return the positions in the log."""
    listed = ", ".join(line.where for line in cell.lines)
    if cell.left_out:
        return f"{listed} and {cell.left_out:,} more"
    return listed


def _listed(ids: tuple[str, ...], most: int | None) -> str:
    if most is None or len(ids) <= most:
        return ", ".join(ids)
    return ", ".join(ids[:most]) + "…"


def _microseconds(ms: float) -> str:
    return tenths(ms * 1e3)


def _seconds(value: float) -> str:
    """Return ``0.0171 s``: one unit in all rows of a column."""
    return f"{digits(value)} s"


def interval_of(cell: Cell) -> str:
    """Return ``1.60 to 1.68``; "" for a cell without an interval."""
    if (
        not isinstance(cell, (Millis, Factor))
        or cell.low is None
        or cell.high is None
    ):
        return ""
    if isinstance(cell, Millis):
        return interval(cell.low, cell.high, digits)
    return interval(cell.low, cell.high)


def tone_of(cell: Cell | Sentences) -> Tone:
    """Return the emphasis of a cell."""
    return getattr(cell, "tone", Tone.PLAIN)


def known_columns(table: Table) -> Table:
    """Return the table without optional columns whose cells are all unknown or zero
    counts."""
    kept = []
    for number, column in enumerate(table.columns):
        if not column.optional or not all(
            is_empty(row.cells[number]) for row in table.rows
        ):
            kept.append(number)
    if len(kept) == len(table.columns):
        return table
    columns = tuple(table.columns[number] for number in kept)
    rows = []
    for row in table.rows:
        rows.append(replace(row, cells=tuple(row.cells[number] for number in kept)))
    return replace(table, columns=columns, rows=tuple(rows))


def is_empty(cell: Cell) -> bool:
    """True if the cell has no known value, or is a count of 0."""
    if isinstance(cell, Count):
        return not cell.number
    if isinstance(cell, Gauge):
        return not cell.share
    return written(cell, TERMINAL) in ("", TERMINAL.unknown)
