"""Cells as text in the notation of a format: the one place where a type becomes a unit."""

from __future__ import annotations

from fusiondoc.rendering.blocks import (
    Bytes,
    Cell,
    Count,
    Difference,
    Factor,
    Millis,
    Rate,
    Seconds,
    Share,
    Status,
    Text,
    Tone,
)
from fusiondoc.rendering.units import (
    Notation,
    difference,
    digits,
    interval,
    percent,
    ratio,
    size,
    whole,
)


def written(cell: Cell, notation: Notation) -> str:
    """The cell without its interval."""
    match cell:
        case Text(text):
            return text
        case Status(word):
            return word
        case Count(number):
            return notation.count(number)
        case Millis(ms):
            return notation.known(ms, digits)
        case Seconds(value):
            return notation.known(value, _seconds)
        case Bytes(number):
            return notation.known(number, size)
        case Share(share):
            return notation.known(share, percent)
        case Rate(rate):
            return notation.known(rate, whole)
        case Factor(factor):
            return notation.known(factor, ratio)
        case Difference(value):
            return notation.known(value, difference)


def _seconds(value: float) -> str:
    """``0.0171 s``: one unit in all of a column."""
    return f"{digits(value)} s"


def interval_of(cell: Cell) -> str:
    """``1.60 to 1.68``; "" of a cell without an interval."""
    if not isinstance(cell, (Millis, Factor)) or cell.low is None or cell.high is None:
        return ""
    if isinstance(cell, Millis):
        return interval(cell.low, cell.high, digits)
    return interval(cell.low, cell.high)


def tone_of(cell: Cell) -> Tone:
    """How the cell stands out."""
    return getattr(cell, "tone", Tone.PLAIN)
