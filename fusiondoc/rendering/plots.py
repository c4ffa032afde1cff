"""Curves and stacked bars as points and sizes, which a template draws as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fusiondoc.model import dataclass
from fusiondoc.rendering.picture_blocks import Curves, Stack
from fusiondoc.rendering.units import digits

DASHES = ("", "7 4", "2 3", "9 3 2 3", "14 4", "4 2", "1 2", "11 5", "6 6")
"""Dashes, so that a line is recognised without its colour too."""

WIDTH, HEIGHT = 640, 300
"""Size of a plot of lines, in its units."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 116, 14, 44
_CHARACTER = 6.7
_LINE = 14
"""Least vertical distance between two names at the ends of lines."""


@dataclass(frozen=True)
class Tick:
    """A label at an axis. ``row`` 1 is a line lower, so that labels do not
    overlap."""

    at: float
    label: str
    row: int = 0


@dataclass(frozen=True)
class Mark:
    """A measured point, and its values in words."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class PlotLine:
    """A variant over names; the line is broken where the variant was not
    measured."""

    name: str
    hue: str
    dash: str
    pieces: tuple[str, ...]
    """Points of each unbroken piece."""
    marks: tuple[Mark, ...]
    name_y: float


@dataclass(frozen=True)
class Plot:
    """Lines over the same names; the values are on a logarithmic scale."""

    title: str
    unit: str
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    lines: tuple[PlotLine, ...]
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True)
class Piece:
    """A part of a stacked bar, from ``start`` over ``width``, in per cent of the
    whole."""

    what: str
    start: float
    width: float
    hue: str
    text: str


def plotted(curves: Curves) -> Plot | None:
    """The plot; None without two names that have a value."""
    measured: set[int] = set()
    known: list[float] = []
    for _, row in curves.values:
        for number, value in enumerate(row):
            if value is not None:
                measured.add(number)
        known += [value for value in row if value is not None and value > 0]
    if len(measured) < 2 or not known:
        return None
    ticks = decades(min(known), max(known))
    scale = _Scale(
        math.log(ticks[0]),
        math.log(ticks[-1]),
        (WIDTH - _LEFT - _RIGHT) / (len(curves.names) - 1),
    )
    drawn = []
    for number, ((name, row), hue) in enumerate(zip(curves.values, curves.hues)):
        points = _points(curves, name, row, scale)
        marks = tuple(point for point in points if point is not None)
        if marks:
            dash = DASHES[number % len(DASHES)]
            drawn.append(
                PlotLine(
                    name, hue, dash, tuple(_pieces(points)), marks, marks[-1].y
                )
            )
    names = []
    for number, name in enumerate(curves.names):
        names.append(_name(number, name, scale))
    heights = tuple(Tick(scale.y(value), digits(value)) for value in ticks)
    return Plot(
        curves.title, curves.unit, tuple(names), heights, tuple(_apart(drawn))
    )


class _Scale(NamedTuple):
    """The scale of values and names: logarithms of the lowest and highest value,
    and the distance between names."""

    low: float
    high: float
    step: float

    def x(self, number: int) -> float:
        return round(_LEFT + number * self.step, 1)

    def y(self, value: float) -> float:
        share = (math.log(value) - self.low) / (self.high - self.low)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _BOTTOM - _TOP), 1)


def _points(
    curves: Curves, name: str, row: Sequence[float | None], scale: _Scale
) -> list[Mark | None]:
    """Return the measured points of a variant; None for names without a value."""
    points: list[Mark | None] = []
    for number, value in enumerate(row):
        text = f"{name}, {curves.names[number]}: {digits(value or 0)} {curves.unit}"
        if value:
            points.append(Mark(scale.x(number), scale.y(value), text))
        else:
            points.append(None)
    return points


def _name(number: int, name: str, scale: _Scale) -> Tick:
    """Return a name below the plot; every second name is a line lower if there is
    little room."""
    is_narrow = scale.step < _CHARACTER * (len(name) + 1)
    return Tick(scale.x(number), name, number % 2 if is_narrow else 0)


def _pieces(points: Iterable[Mark | None]) -> list[str]:
    found: list[list[str]] = [[]]
    for point in points:
        if point is None:
            found.append([])
        else:
            found[-1].append(f"{point.x},{point.y}")
    return [" ".join(piece) for piece in found if piece]


def _apart(drawn: Sequence[PlotLine]) -> list[PlotLine]:
    """Return the lines with the names at their ends moved until none covers
    another."""
    heights: dict[str, float] = {}
    ordered = sorted(drawn, key=lambda line: line.name_y)
    last = -math.inf
    for line in ordered:
        last = max(line.name_y, last + _LINE)
        heights[line.name] = last
    least = float(HEIGHT - _BOTTOM)
    for line in reversed(ordered):
        heights[line.name] = min(heights[line.name], least)
        least = heights[line.name] - _LINE
    lines = []
    for line in drawn:
        lines.append(
            PlotLine(
                line.name,
                line.hue,
                line.dash,
                line.pieces,
                line.marks,
                round(heights[line.name], 1),
            )
        )
    return lines


def decades(low: float, high: float) -> list[float]:
    """Return steps of 1, 2, 5, 10 that cover both values; at least two."""
    exponent = math.floor(math.log10(low))
    found: list[float] = []
    while not found or found[-1] < high:
        for step in (1, 2, 5):
            found.append(step * 10.0**exponent)
        exponent += 1
    inside = []
    for n, one in enumerate(found):
        if n + 1 == len(found) or found[n + 1] > low:
            inside.append(one)
    ends = next((n for n, one in enumerate(inside) if one >= high), len(inside) - 1)
    kept = inside[: max(ends, 1) + 1]
    if len(kept) > 1:
        return kept
    return [kept[0], kept[0] * 2]


def hue_of(what: str, order: Sequence[str]) -> str:
    """Return the colour of a kind in stacked bars: the kinds from the eighth on
    share the last, grey one."""
    if what in order:
        return f"r{min(order.index(what), 7)}"
    return "r7"


def pieces(stack: Stack, kinds: Sequence[str]) -> list[Piece]:
    """Return the parts of a stacked bar; together they never exceed the whole."""
    made = []
    start = 0.0
    for what, share, text in stack.parts:
        width = max(0.0, min(share, 1.0 - start)) * 100
        made.append(
            Piece(
                what,
                round(start * 100, 2),
                round(width, 2),
                hue_of(what, kinds),
                text,
            )
        )
        start += width / 100
    return made
