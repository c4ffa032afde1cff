"""Parts of the pages of benches, suites and surveys, which templates draw: plots as places and sizes (bars,
lines over shapes, stacked bars), tables, and the sections that hold them.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from markupsafe import Markup

from fusiondoc.model import dataclass
from fusiondoc.model.bench import EACH_CALL, VARIANTS
from fusiondoc.rendering.units import digits
from fusiondoc.reports.benchmark.suite_grids import Cell
from fusiondoc.reports.html.page_context import render_page
from fusiondoc.version import __version__

_HERE = Path(__file__).resolve().parent

HUES: Mapping[str, str] = dict(
    zip((*VARIANTS, EACH_CALL), ("r7", "r5", "r3", "r2", "r6", "r4", "r0", "r1", "r0"))
)
"""The colour of a variant, the same in every plot."""

DASHES = ("", "7 4", "2 3", "9 3 2 3", "14 4", "4 2", "1 2", "11 5", "6 6")
"""A line is told by its dashes too."""

WIDTH, HEIGHT = 640, 300
"""Of a plot of lines, in its units."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 116, 14, 44
_CHARACTER = 6.7
_LINE = 14
"""Least height between two names at the ends of lines."""


@dataclass(frozen=True)
class Bar:
    """``width``, ``low`` and ``high`` in per cent of the longest; ``detail`` stands behind the value."""

    label: str
    value: str
    detail: str
    width: float
    low: float
    high: float
    hue: str
    style: str = ""

    @property
    def spoken(self) -> str:
        """What a screen reader says."""
        return " ".join(filter(None, (self.label, self.value, self.detail)))


@dataclass(frozen=True)
class Bars:
    """Bars with one scale."""

    title: str
    note: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Tick:
    """``row`` 1 is a line lower, so that labels do not touch."""

    at: float
    label: str
    row: int = 0


@dataclass(frozen=True)
class Mark:
    """A measured point, and what it says."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Line:
    """A variant over shapes; where a shape was not measured the line is broken."""

    name: str
    hue: str
    dash: str
    pieces: tuple[str, ...]
    """Points of each unbroken piece."""
    marks: tuple[Mark, ...]
    name_y: float


@dataclass(frozen=True)
class Lines:
    """Lines over the same shapes; the values are on a logarithmic scale."""

    title: str
    unit: str
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    lines: tuple[Line, ...]
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True)
class Piece:
    """A part of a stacked bar, from ``start`` over ``width``, in per cent of the whole."""

    what: str
    start: float
    width: float
    hue: str
    text: str


@dataclass(frozen=True)
class Stack:
    """A whole and its parts."""

    label: str
    value: str
    pieces: tuple[Piece, ...]


def hue(name: str) -> str:
    return HUES.get(name, "r7")


def lines(
    title: str, unit: str, names: Sequence[str], values: Mapping[str, Sequence[float | None]]
) -> Lines | None:
    """A plot over shapes.

    Args:
        names: of the shapes, in order.
        values: of each variant, one a shape; None where it has none.

    Returns:
        None without two shapes that have a value.
    """
    known = [one for row in values.values() for one in row if one is not None and one > 0]
    measured = {n for row in values.values() for n, one in enumerate(row) if one is not None}
    if len(measured) < 2 or not known:
        return None
    ticks = decades(min(known), max(known))
    low, high = math.log(ticks[0]), math.log(ticks[-1])

    def y(value: float) -> float:
        share = (math.log(value) - low) / (high - low)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _BOTTOM - _TOP), 1)

    step = (WIDTH - _LEFT - _RIGHT) / (len(names) - 1)
    x = [round(_LEFT + number * step, 1) for number in range(len(names))]
    drawn = []
    for number, (name, row) in enumerate(values.items()):
        points = [
            (x[n], y(one), f"{name}, {names[n]}: {digits(one)} {unit}") if one else None
            for n, one in enumerate(row)
        ]
        marks = tuple(Mark(*one) for one in points if one is not None)
        if marks:
            dash = DASHES[number % len(DASHES)]
            drawn.append(Line(name, hue(name), dash, tuple(_pieces(points)), marks, marks[-1].y))
    return Lines(
        title,
        unit,
        tuple(
            Tick(at, name, number % 2 if step < _CHARACTER * (len(name) + 1) else 0)
            for number, (at, name) in enumerate(zip(x, names))
        ),
        tuple(Tick(y(one), digits(one)) for one in ticks),
        tuple(_apart(drawn)),
    )


def _pieces(points: Iterable[tuple[float, float, str] | None]) -> list[str]:
    found: list[list[str]] = [[]]
    for one in points:
        if one is None:
            found.append([])
        else:
            found[-1].append(f"{one[0]},{one[1]}")
    return [" ".join(piece) for piece in found if piece]


def _apart(drawn: Sequence[Line]) -> list[Line]:
    """The names at the ends of lines, moved until none covers another."""
    places: dict[str, float] = {}
    ordered = sorted(drawn, key=lambda line: line.name_y)
    last = -math.inf
    for one in ordered:
        last = max(one.name_y, last + _LINE)
        places[one.name] = last
    least = float(HEIGHT - _BOTTOM)
    for one in reversed(ordered):
        places[one.name] = min(places[one.name], least)
        least = places[one.name] - _LINE
    return [
        Line(one.name, one.hue, one.dash, one.pieces, one.marks, round(places[one.name], 1)) for one in drawn
    ]


def decades(low: float, high: float) -> list[float]:
    """Steps of 1, 2, 5, 10 that hold both; at least two."""
    exponent = math.floor(math.log10(low))
    found: list[float] = []
    while not found or found[-1] < high:
        for step in (1, 2, 5):
            found.append(step * 10.0**exponent)
        exponent += 1
    inside = [one for n, one in enumerate(found) if n + 1 == len(found) or found[n + 1] > low]
    ends = next((n for n, one in enumerate(inside) if one >= high), len(inside) - 1)
    kept = inside[: max(ends, 1) + 1]
    return kept if len(kept) > 1 else [kept[0], kept[0] * 2]


def hue_of(what: str, order: Sequence[str]) -> str:
    """The colour of a kind in stacked bars: those beyond the eighth share the last, grey one."""
    return f"r{min(order.index(what), 7)}" if what in order else "r7"


def stack(label: str, value: str, parts: Sequence[tuple[str, float, str]], order: Sequence[str]) -> Stack:
    """A stacked bar of (what, share, text); ``order`` gives each kind its colour."""
    pieces = []
    start = 0.0
    for what, share, text in parts:
        width = max(0.0, min(share, 1.0 - start)) * 100
        pieces.append(Piece(what, round(start * 100, 2), round(width, 2), hue_of(what, order), text))
        start += width / 100
    return Stack(label, value, tuple(pieces))


Heads = Sequence["tuple[str, str]"]
"""(text, class of its cells)."""


@dataclass(frozen=True)
class Row:
    """``above``: what stands in a line of its own before it."""

    cells: tuple[Cell, ...]
    above: str | None = None


@dataclass(frozen=True)
class PageTable:
    heads: Heads
    rows: tuple[Row, ...]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page: plots first, then tables and texts."""

    id: str
    title: str
    note: str = ""
    bars: tuple[Bars, ...] = ()
    lines: tuple[Lines, ...] = ()
    stacks: tuple[Stack, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    tables: tuple[PageTable, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    said: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.bars or self.lines or self.stacks or self.tables or self.facts or self.said)


@dataclass(frozen=True)
class Page:
    name: str
    verdict: str
    where: str
    sections: tuple[Section, ...]
    command: str = "bench"


def drawn(page: Page) -> str:
    """Any page of these sections."""
    style = (_HERE.parent / "html" / "page.css").read_text("utf-8") + (_HERE / "bench.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode("utf-8")).digest()).decode("ascii")
    return render_page(
        _HERE / "templates",
        "bench.html.jinja",
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'",
        style=Markup(style),
        version=__version__,
        page=page,
    )
