"""Cells as text in the notation of a format: only here a type becomes a unit."""

from __future__ import annotations

from fusiondoc.rendering.blocks import Sentences
from fusiondoc.rendering.units import (
    Notation,
    difference,
    digits,
    interval,
    ratio,
    share,
    size,
    whole,
)
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    Difference,
    Duration,
    Factor,
    Gauge,
    Millis,
    Rate,
    Reference,
    Seconds,
    Share,
    Status,
    Text,
    Tone,
)


def written(cell: Cell, notation: Notation) -> str:
    """The cell without its interval."""
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
        case Seconds(value):
            return notation.known(value, _seconds)
        case Bytes(number):
            return notation.known(number, size)
        case Share(part):
            return notation.known(part, share)
        case Rate(rate):
            return notation.known(rate, whole)
        case Factor(factor):
            return notation.known(factor, ratio)
        case Difference(value):
            return notation.known(value, difference)
        case Reference(ids):
            return ", ".join(ids)
        case Gauge():
            return ""  # a picture; its row has the figure


def _count(cell: Count, notation: Notation) -> str:
    """``1,024``, or ``5 (+2)`` against the number that it is compared with."""
    text = notation.count(cell.number)
    if cell.number is None or cell.base is None or cell.number == cell.base:
        return text
    return f"{text} ({cell.number - cell.base:+,})"


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


def tone_of(cell: Cell | Sentences) -> Tone:
    """How the cell stands out."""
    return getattr(cell, "tone", Tone.PLAIN)
