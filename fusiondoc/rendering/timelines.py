"""Figures over time: as a line of blocks, and as points and sizes that a template
draws as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusiondoc.model import dataclass
from fusiondoc.rendering.picture_blocks import Moment, Timeline
from fusiondoc.rendering.plots import Mark
from fusiondoc.rendering.units import digits, percent

LEVELS = "▁▂▃▄▅▆▇█"
UNKNOWN_LEVEL = "·"
MOST_BLOCKS = 12
"""Most values in a line of blocks: the last ones."""
NOISE = 0.05
"""Share of the highest value: a smaller range is drawn as a flat line."""

WIDTH, HEIGHT = 640, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 18, 34
_MOST_LABELS = 5
"""Most labels below the axis."""
_MANY_POINTS = 60
"""From this number on points are smaller."""


def sparkline(values: Sequence[float | None]) -> str:
    """Return ``▇▇▇▃▃``: the last values, scaled from the lowest to the highest of
    them; "" without two known values."""
    shown = values[-MOST_BLOCKS:]
    known = [value for value in shown if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    middle = (low + high) / 2
    span = max(high - low, NOISE * abs(high))
    blocks = []
    for value in shown:
        if value is None:
            blocks.append(UNKNOWN_LEVEL)
            continue
        share = 0.5 + (value - middle) / span if span else 0.5
        blocks.append(LEVELS[round(share * (len(LEVELS) - 1))])
    return "".join(blocks)


@dataclass(frozen=True)
class Label:
    """A text at an axis. ``anchor``: the side of the text at the position, as in
    SVG."""

    at: float
    label: str
    anchor: str = "end"


@dataclass(frozen=True)
class Event:
    """A vertical line."""

    x: float
    text: str


@dataclass(frozen=True)
class Drawn:
    """A timeline with the positions of its parts."""

    title: str
    unit: str
    spoken: str
    """Text for a screen reader."""
    hue: str
    x: tuple[Label, ...]
    y: tuple[Label, ...]
    pieces: tuple[str, ...]
    """Points of each unbroken piece of the line."""
    marks: tuple[Mark, ...]
    events: tuple[Event, ...]
    radius: float
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM
    width: int = WIDTH
    height: int = HEIGHT


def drawn(timeline: Timeline) -> Drawn | None:
    """The picture; None without two known values."""
    moments = timeline.moments
    known = []
    for moment in moments:
        if moment.value is not None:
            known.append(moment.value)
    if len(known) < 2:
        return None
    steps = (0.0, 0.25, 0.5, 0.75, 1.0) if timeline.is_share else axis(max(known))
    write = percent if timeline.is_share else digits
    points = []
    for number, moment in enumerate(moments):
        points.append(_point(number, moment, len(moments), steps[-1]))
    events = []
    for number, moment in enumerate(moments):
        if moment.event:
            events.append(Event(_x(number, len(moments)), moment.event))
    return Drawn(
        title=timeline.title,
        unit=timeline.unit,
        spoken=f"{timeline.title}: {moments[0].text} to {moments[-1].text}",
        hue=timeline.hue,
        x=_labels(moments),
        y=tuple(Label(_y(step, steps[-1]), write(step)) for step in steps),
        pieces=_pieces(points),
        marks=tuple(point for point in points if point is not None),
        events=tuple(events),
        radius=4 if len(moments) < _MANY_POINTS else 2,
    )


def axis(high: float) -> tuple[float, ...]:
    """Return even steps from 0 to at least ``high``, each of 1, 2 or 5 times a
    power of ten."""
    if high <= 0:
        return (0.0, 1.0)
    step = 10.0 ** math.floor(math.log10(high))
    for factor in (0.2, 0.5, 1.0):
        if high <= 5 * step * factor:
            step *= factor
            break
    else:
        step *= 2
    values = []
    for number in range(math.ceil(high / step - 1e-9) + 1):
        values.append(step * number)
    return tuple(values)


def _x(number: int, count: int) -> float:
    return round(_LEFT + number * (WIDTH - _LEFT - _RIGHT) / (count - 1), 1)


def _y(value: float, high: float) -> float:
    return round(HEIGHT - _BOTTOM - value / high * (HEIGHT - _BOTTOM - _TOP), 1)


def _point(number: int, moment: Moment, count: int, high: float) -> Mark | None:
    if moment.value is None:
        return None
    return Mark(_x(number, count), _y(moment.value, high), moment.text)


def _pieces(points: Sequence[Mark | None]) -> tuple[str, ...]:
    pieces: list[list[str]] = [[]]
    for point in points:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{point.x},{point.y}")
    return tuple(" ".join(piece) for piece in pieces if len(piece) > 1)


def _labels(moments: Sequence[Moment]) -> tuple[Label, ...]:
    """Return labels of some of the moments, evenly spaced, the first and the last
    among them."""
    last = len(moments) - 1
    parts = min(_MOST_LABELS - 1, last)
    found = []
    for part in range(parts + 1):
        number = round(part * last / parts)
        if not part:
            anchor = "start"
        elif part == parts:
            anchor = "end"
        else:
            anchor = "middle"
        found.append(Label(_x(number, len(moments)), moments[number].label, anchor))
    return tuple(found)
