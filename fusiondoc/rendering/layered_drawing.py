"""Positions of the boxes of a picture and of the paths between them.

Rows go from top to bottom along the edges, with few crossings and short ways. The
usual steps of a layered drawing (Sugiyama and others 1981): rows by longest path,
order in a row by the mean position of the neighbours, positions by least squares
with a gap between neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from fusiondoc.model import dataclass

Point = tuple[float, float]

GAP = 22.0
ROW_GAP = 34.0
WIDEST = 1080.0
"""A row that would be wider is cut into several."""

_SWEEPS = 6
_CALM = 0.98
"""Factor that pulls all boxes a little to the middle, row by row."""

_ROUTED = 8
"""Edges over at most this many rows are routed around the boxes; longer ones are
straight."""


@dataclass
class Drawing:
    """Upper left corners of the boxes, and the points of each edge's path."""

    corners: list[Point]
    routes: list[list[Point]]
    width: float
    height: float
    order: list[int]
    """Indexes of the boxes in reading order."""


def draw(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Drawing:
    """Lay out boxes of these sizes (width, height)."""
    return _Layout(sizes, edges).drawing()


class _Layout:
    def __init__(
        self, sizes: Sequence[Point], edges: Sequence[tuple[int, int]]
    ) -> None:
        self.count = len(sizes)
        self.edges = edges
        self.widths = [size[0] for size in sizes]
        self.heights = [size[1] for size in sizes]
        self.rows = self._wrapped(_layers(self.count, edges))
        self.row_of = {}
        for r, row in enumerate(self.rows):
            for i in row:
                self.row_of[i] = r
        self.ways = [self._way(edge) for edge in edges]
        self.near: list[list[int]] = [[] for _ in self.widths]
        self.far: list[list[int]] = [[] for _ in self.widths]
        for way in self.ways:
            for a, b in itertools.pairwise(way):
                if self.row_of[a] != self.row_of[b]:
                    up, down = sorted((a, b), key=lambda i: self.row_of[i])
                    self.far[up].append(down)
                    self.near[down].append(up)
        self._sort_rows()
        self.centres = self._centres()

    def drawing(self) -> Drawing:
        tops = []
        y = 12.0
        for row in self.rows:
            tops.append(y)
            tall = max((self.heights[i] for i in row), default=0.0)
            for i in row:
                if i >= self.count:
                    self.heights[i] = (
                        tall  # an edge passes the boxes of its row straight
                    )
            y += tall + ROW_GAP
        left = (
            min(
                (
                    self.centres[i] - self.widths[i] / 2
                    for i in range(len(self.widths))
                ),
                default=0.0,
            )
            - 12
        )
        right = (
            max(
                (
                    self.centres[i] + self.widths[i] / 2
                    for i in range(len(self.widths))
                ),
                default=0.0,
            )
            + 12
        )
        corners = []
        for i in range(self.count):
            corners.append(
                (self.centres[i] - self.widths[i] / 2 - left, tops[self.row_of[i]])
            )
        routes = []
        for way in self.ways:
            points: list[Point] = []
            for nth, stop in enumerate(way):
                x, top = self.centres[stop] - left, tops[self.row_of[stop]]
                if nth:
                    points.append((x, top))
                if nth < len(way) - 1:
                    points.append((x, top + self.heights[stop]))
            routes.append(points)
        order = [i for row in self.rows for i in row if i < self.count]
        return Drawing(
            corners, routes, max(right - left, 60.0), y - ROW_GAP + 12, order
        )

    def _wrapped(self, layers: list[list[int]]) -> list[list[int]]:
        rows: list[list[int]] = []
        for layer in layers:
            row: list[int] = []
            wide = 0.0
            for i in layer:
                if row and wide + self.widths[i] > WIDEST:
                    rows.append(row)
                    row, wide = [], 0.0
                row.append(i)
                wide += self.widths[i] + GAP
            rows.append(row)
        return rows

    def _way(self, edge: tuple[int, int]) -> list[int]:
        """Return the path of an edge, with a new box of almost no size in each row
        between."""
        start, end = edge
        first, last = self.row_of[start], self.row_of[end]
        if not 1 < last - first <= _ROUTED:
            return [start, end]
        way = [start]
        for row in range(first + 1, last):
            bend = len(self.widths)
            self.widths.append(4.0)
            self.heights.append(0.0)
            self.rows[row].append(bend)
            self.row_of[bend] = row
            way.append(bend)
        return [*way, end]

    def _sort_rows(self) -> None:
        position = {}
        for row in self.rows:
            for p, i in enumerate(row):
                position[i] = float(p)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                sides = self.near if down else self.far
                row.sort(
                    key=lambda i: _mean(
                        (position[j] for j in sides[i]), position[i]
                    )
                )
                for p, i in enumerate(row):
                    position[i] = float(p)

    def _centres(self) -> list[float]:
        centres = [0.0] * len(self.widths)
        for row in self.rows:
            x = -sum(self.widths[i] + GAP for i in row) / 2
            for i in row:
                centres[i] = x + self.widths[i] / 2
                x += self.widths[i] + GAP
        for sweep in range(_SWEEPS + 1):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                wanted = []
                for i in row:
                    sides = self.near[i] if down else self.far[i]
                    wanted.append(
                        _CALM
                        * self._middle(
                            sides or self.near[i] or self.far[i], centres, i
                        )
                    )
                weights = [self._weight(i) for i in row]
                for i, x in zip(
                    row, _spread([self.widths[i] for i in row], wanted, weights)
                ):
                    centres[i] = x
        return centres

    def _weight(self, i: int) -> float:
        """Edges have less weight than boxes: else every edge beside a chain of
        boxes would push it further aside."""
        if i < self.count:
            return 1.0
        return 0.05

    def _middle(
        self, around: Sequence[int], centres: Sequence[float], i: int
    ) -> float:
        weights = sum(map(self._weight, around))
        if around:
            return sum(self._weight(j) * centres[j] for j in around) / weights
        return centres[i]


def _mean(values: Iterable[float], default: float) -> float:
    known = list(values)
    if known:
        return sum(known) / len(known)
    return default


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the rows by longest path from the top; boxes without inputs are
    directly above the boxes that read them. An edge that would close a cycle does
    not count."""
    before: list[set[int]] = [set() for _ in range(count)]
    after: list[set[int]] = [set() for _ in range(count)]
    for a, b in edges:
        if a != b:
            before[b].add(a)
            after[a].add(b)
    level = _levels(before, after)
    for i in reversed(range(count)):
        if not before[i] and after[i]:
            level[i] = max(0, min(level[j] for j in after[i]) - 1)
    layers: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    alone: list[int] = []
    for i in range(count):
        row = layers[level[i]] if before[i] or after[i] else alone
        row.append(i)
    return [layer for layer in (*layers, alone) if layer]


def _levels(before: Sequence[set[int]], after: Sequence[set[int]]) -> list[int]:
    """Return for each box the length of the longest path to it."""
    waiting = [len(inputs) for inputs in before]
    level = [0] * len(before)
    done = [False] * len(before)
    ready = [i for i, inputs in enumerate(before) if not inputs]
    placed = 0
    while placed < len(before):
        if not ready:  # all remaining boxes are in cycles
            ready = [done.index(False)]
        for i in ready:
            done[i] = True
        placed += len(ready)
        ready = _released(ready, after, done, level, waiting)
    return level


def _released(
    ready: Sequence[int],
    after: Sequence[set[int]],
    done: Sequence[bool],
    level: list[int],
    waiting: list[int],
) -> list[int]:
    """Return the boxes whose last input was drawn; raises the level of the boxes
    that still wait."""
    coming = set()
    for i in ready:
        for j in after[i]:
            if done[j]:
                continue
            level[j] = max(level[j], level[i] + 1)
            waiting[j] -= 1
            if not waiting[j]:
                coming.add(j)
    return sorted(coming)


def _spread(
    widths: Sequence[float], wanted: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Return centres as close to the wanted ones as the gaps allow, in least
    squares (pool adjacent violators)."""
    offsets = [0.0]
    for a, b in itertools.pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + GAP)
    pools: list[tuple[float, float, int]] = []  # weighted sum, weight, count
    for x, offset, weight in zip(wanted, offsets, weights):
        pools.append(((x - offset) * weight, weight, 1))
        while (
            len(pools) > 1
            and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]
        ):
            (sum1, weight1, many1), (sum2, weight2, many2) = pools[-2:]
            pools[-2:] = [(sum1 + sum2, weight1 + weight2, many1 + many2)]
    bases = []
    for total, weight, many in pools:
        for _ in range(many):
            bases.append(total / weight)
    return [base + offset for base, offset in zip(bases, offsets)]
