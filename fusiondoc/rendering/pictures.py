"""Pictures of programs: boxes and the paths between them in the units of their
SVG."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fusiondoc.model import dataclass
from fusiondoc.rendering.layered_drawing import Point, draw
from fusiondoc.rendering.picture_blocks import Box, PictureGraph

_CHARACTER = 6.9
"""Width of a character of the pictures' type, 11.5 px monospace."""
_LINE = 16
_PAD = 10


@dataclass(frozen=True)
class PlacedBox:
    """A box with its upper left corner; ``lines``: (height of the base line,
    text)."""

    box: Box
    x: str
    y: str
    width: str
    height: str
    lines: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class PlacedGraph:
    """A graph with its boxes in reading order; ``ways`` are paths of SVG, each with
    the reason that keeps its two boxes apart."""

    graph: PictureGraph
    width: int
    height: int
    ways: tuple[tuple[str, str | None], ...]
    boxes: tuple[PlacedBox, ...]
    pad: int = _PAD


def placed(graph: PictureGraph) -> PlacedGraph:
    """Return the boxes and paths at their positions."""
    drawing = draw([_size(box.lines) for box in graph.boxes], graph.edges)
    boxes = []
    for number in drawing.order:
        boxes.append(_placed(graph.boxes[number], drawing.corners[number]))
    ways = tuple(itertools.zip_longest(map(_path, drawing.routes), graph.apart))
    return PlacedGraph(
        graph, round(drawing.width), round(drawing.height), ways, tuple(boxes)
    )


def _placed(box: Box, corner: Point) -> PlacedBox:
    width, height = _size(box.lines)
    lines = []
    for number, line in enumerate(box.lines):
        lines.append((_PAD + 9 + number * _LINE, line))
    return PlacedBox(
        box,
        f"{corner[0]:.0f}",
        f"{corner[1]:.0f}",
        f"{width:.0f}",
        f"{height:.0f}",
        tuple(lines),
    )


def _size(lines: Sequence[str]) -> Point:
    return max(map(len, lines)) * _CHARACTER + 2 * _PAD, len(
        lines
    ) * _LINE + 2 * _PAD - 6


def _path(points: Sequence[Point]) -> str:
    """Return a smooth path through the points; each leaves and enters its row
    straight up or down."""
    parts = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        if abs(x1 - x2) < 1:
            parts.append(f"V{y2:.0f}")
            continue
        bend = max(12.0, abs(y2 - y1) / 2)
        parts.append(
            f"C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
        )
    return "".join(parts)
