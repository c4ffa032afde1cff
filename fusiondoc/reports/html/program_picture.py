"""The picture of a program: which programs a page has room for, what each box says, and where the boxes and
the ways between them stand, in the units of their SVG.

Rows go from top to bottom along the edges, with few crossings and short ways. The usual steps of a layered
drawing (Sugiyama and others 1981): rows by longest path, order in a row by the mean place of the neighbours,
places by least squares with a gap between neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.model import count, dataclass
from fusiondoc.model.operator_places import NO_OPERATORS
from fusiondoc.model.report import Group, Program, ProgramNode, Report
from fusiondoc.rendering.hues import hue
from fusiondoc.views.formatting import runs_of
from fusiondoc.views.report_context import shown

Point = tuple[float, float]

_CHARACTER = 6.9
"""Width of a character of the pictures' type, 11.5 px monospace."""
_LINE = 16
_PAD = 10
_LONGEST = 34
_MOST_LINES = 6


@dataclass(frozen=True)
class Box:
    """A node of a picture. ``index`` is its number in the program."""

    index: int
    x: str
    y: str
    width: str
    height: str
    kinds: str
    """Classes: how it looks."""
    lines: tuple[tuple[int, str], ...]
    """(height of its base line, text)."""
    spoken: str
    """What a screen reader says."""
    group: str | None
    reason: str | None
    rounded: int


@dataclass(frozen=True)
class Picture:
    """A program; ``ways`` are paths of SVG. All but one are hidden."""

    id: str
    title: str
    width: int
    height: int
    ways: tuple[str, ...]
    boxes: tuple[Box, ...]
    cut: int
    values_left_out: int
    pad: int = _PAD


def title(program: Program) -> str:
    """What a program is called in the selector."""
    words = [program.id, program.phase or "phase unknown"]
    if program.specialisation > 1:
        words.append(f"specialisation {program.specialisation}")
    if len(program.ranks) > 1:
        words.append("ranks " + ", ".join(map(str, program.ranks)))
    groups = sum(node.kind == "group" for node in program.nodes)
    others = sum(node.reason is not None and node.op not in NO_OPERATORS for node in program.nodes)
    regions = sum(node.kind == "region" for node in program.nodes)
    parts = [count(groups, "group"), f"{others} outside"]
    if regions:
        parts.insert(0, count(regions, "differentiable graph"))
    return f"{' · '.join(words)} — {', '.join(parts)}"


def picture(program: Program, groups: Mapping[str, Group], changed: Container[int] = ()) -> Picture:
    """The picture of a program, its boxes as one reads them. ``changed``: nodes that are marked so."""
    kept = [i for i, node in enumerate(program.nodes) if node.op not in NO_OPERATORS]
    place = {i: nth for nth, i in enumerate(kept)}
    labels = [_label(program.nodes[i], groups) for i in kept]
    edges = [(place[a], place[b]) for a, b in program.edges if a in place and b in place]
    drawing = draw([_size(label) for label in labels], edges)
    return Picture(
        id=program.id,
        title=title(program),
        width=round(drawing.width),
        height=round(drawing.height),
        ways=tuple(map(_path, drawing.routes)),
        boxes=tuple(
            _box(
                kept[nth],
                program.nodes[kept[nth]],
                labels[nth],
                drawing.corners[nth],
                groups,
                kept[nth] in changed,
            )
            for nth in drawing.order
        ),
        cut=program.cut,
        values_left_out=program.values_left_out,
    )


def _box(
    index: int,
    node: ProgramNode,
    lines: Sequence[str],
    corner: Point,
    groups: Mapping[str, Group],
    changed: bool,
) -> Box:
    width, height = _size(lines)
    group = groups.get(node.group or "")
    kinds = ["node", node.kind, *(["changed"] if changed else [])]
    if group is not None and group.fallback:
        kinds.append("fell")
    elif node.reason is not None:
        kinds += ["out", hue(node.reason)]
    if node.inside is not None:
        kinds.append("inner")
    return Box(
        index=index,
        x=f"{corner[0]:.0f}",
        y=f"{corner[1]:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        kinds=" ".join(kinds),
        lines=tuple((_PAD + 9 + nth * _LINE, line) for nth, line in enumerate(lines)),
        spoken=_spoken(node, group),
        group=node.group,
        reason=node.reason,
        rounded=10 if node.kind == "control" else 5,
    )


def _label(node: ProgramNode, groups: Mapping[str, Group]) -> list[str]:
    group = groups.get(node.group or "")
    if group is not None:
        return _group_label(group)
    where = shown(node.user_source or node.source).rpartition("/")[2]
    if node.kind == "control":
        what = "loop" if node.op == "prim::Loop" else "branch"
        lines = [f"{what} on {node.condition}" if what == "branch" and node.condition else what, where]
    elif node.kind == "region":
        lines = ["differentiable graph", f"its plan: {node.program}" if node.program else where]
    else:
        op = node.op[len("aten::") :] if node.op.startswith("aten::") else node.op
        lines = [op, where]
    if node.reason is not None:
        lines[1] = f"{node.reason}  {lines[1]}".rstrip()
    return [_short(line) for line in lines if line]


def _group_label(group: Group) -> list[str]:
    head = f"{group.id}  {count(group.size, 'operator')}" + ("  FELL BACK" if group.fallback else "")
    lines = [""]
    for op in runs_of(group.ops):
        if lines[-1] and len(lines[-1]) + len(op) > _LONGEST - 8:
            lines[-1] += ","
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + op
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = ["…"]
    return [head, *(_short(line) for line in lines if line)]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _size(lines: Sequence[str]) -> Point:
    return max(map(len, lines)) * _CHARACTER + 2 * _PAD, len(lines) * _LINE + 2 * _PAD - 6


def _spoken(node: ProgramNode, group: Group | None) -> str:
    where = shown(node.user_source or node.source)
    if group is not None:
        text = f"{group.id}, fusion group of {count(group.size, 'operator')}"
        return text + (", fell back" if group.fallback else "")
    text = {"control": f"{node.op}, control flow", "region": "differentiable graph"}.get(node.kind, node.op)
    if node.reason is not None:
        text += f", not fused, {node.reason}"
    return text + (f", {where}" if where else "")


def _path(points: Sequence[Point]) -> str:
    """A smooth way through the points; each leaves and enters its row straight up or down."""
    parts = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        if abs(x1 - x2) < 1:
            parts.append(f"V{y2:.0f}")
            continue
        bend = max(12.0, abs(y2 - y1) / 2)
        parts.append(f"C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}")
    return "".join(parts)


def within(programs: Sequence[Program], first: str, left: int) -> list[Program]:
    """The programs that fit, the one that is shown first before all others; the last of them cut."""
    fitting: dict[str, Program] = {}
    for program in sorted(programs, key=lambda one: one.id != first):
        if left > 0:
            fitting[program.id] = _cut(program, left)
            left -= len(program.nodes)
    return [fitting[program.id] for program in programs if program.id in fitting]


def _cut(program: Program, most: int) -> Program:
    if len(program.nodes) <= most:
        return program
    edges = tuple(edge for edge in program.edges if max(edge) < most)
    cut = program.cut + len(program.nodes) - most
    return replace(program, nodes=program.nodes[:most], edges=edges, cut=cut)


def main_program(report: Report) -> str:
    """The program that is shown first: of the forward ones that with the most groups."""

    def groups(program: Program) -> tuple[bool, int]:
        return program.phase != "backward", sum(node.kind == "group" for node in program.nodes)

    return max(report.programs, key=groups).id


# -- where the boxes stand ---------------------------------------------------------------------------------


GAP = 22.0
ROW_GAP = 34.0
WIDEST = 1080.0
"""A row that would be wider is cut into several."""

_SWEEPS = 6
_CALM = 0.98
"""Draws everything a little to the middle, row by row."""

_ROUTED = 8
"""Edges over at most so many rows get a way of their own around the boxes; longer ones go straight."""


@dataclass
class Drawing:
    """Left upper corners of the boxes, and the points that each edge goes through."""

    corners: list[Point]
    routes: list[list[Point]]
    width: float
    height: float
    order: list[int]
    """The boxes as one reads them."""


def draw(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Drawing:
    """Lay out boxes of these (width, height)."""
    return _Layout(sizes, edges).drawing()


class _Layout:
    def __init__(self, sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> None:
        self.count = len(sizes)
        self.edges = edges
        self.widths = [size[0] for size in sizes]
        self.heights = [size[1] for size in sizes]
        self.rows = self._wrapped(_layers(self.count, edges))
        self.row_of = {i: r for r, row in enumerate(self.rows) for i in row}
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
                    self.heights[i] = tall  # an edge passes the boxes of its row straight
            y += tall + ROW_GAP
        left = min((self.centres[i] - self.widths[i] / 2 for i in range(len(self.widths))), default=0.0) - 12
        right = max((self.centres[i] + self.widths[i] / 2 for i in range(len(self.widths))), default=0.0) + 12
        corners = []
        for i in range(self.count):
            corners.append((self.centres[i] - self.widths[i] / 2 - left, tops[self.row_of[i]]))
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
        return Drawing(corners, routes, max(right - left, 60.0), y - ROW_GAP + 12, order)

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
        """The edge as boxes without size in the rows between."""
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
        place = {i: float(p) for row in self.rows for p, i in enumerate(row)}
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                sides = self.near if down else self.far
                row.sort(key=lambda i: _mean((place[j] for j in sides[i]), place[i]))
                for p, i in enumerate(row):
                    place[i] = float(p)

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
                    wanted.append(_CALM * self._middle(sides or self.near[i] or self.far[i], centres, i))
                weights = [self._weight(i) for i in row]
                for i, x in zip(row, _spread([self.widths[i] for i in row], wanted, weights)):
                    centres[i] = x
        return centres

    def _weight(self, i: int) -> float:
        """Edges give way to boxes: else every edge beside a chain of boxes would push it further aside."""
        return 1.0 if i < self.count else 0.05

    def _middle(self, around: Sequence[int], centres: Sequence[float], i: int) -> float:
        weights = sum(map(self._weight, around))
        return sum(self._weight(j) * centres[j] for j in around) / weights if around else centres[i]


def _mean(values: Iterable[float], default: float) -> float:
    known = list(values)
    return sum(known) / len(known) if known else default


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Longest path from the top; what has no input stands right above what uses it. An edge that would close
    a circle does not count."""
    before: list[set[int]] = [set() for _ in range(count)]
    after: list[set[int]] = [set() for _ in range(count)]
    for a, b in edges:
        if a != b:
            before[b].add(a)
            after[a].add(b)
    waiting = [len(b) for b in before]
    ready = [i for i in range(count) if not waiting[i]]
    level = [0] * count
    done = [False] * count
    placed = 0
    while placed < count:
        if not ready:
            ready = [next(i for i in range(count) if not done[i])]
        for i in ready:
            done[i] = True
        placed += len(ready)
        coming = []
        for i in ready:
            for j in after[i]:
                if done[j]:
                    continue
                level[j] = max(level[j], level[i] + 1)
                waiting[j] -= 1
                if not waiting[j]:
                    coming.append(j)
        ready = sorted(set(coming))
    for i in reversed(range(count)):
        if not before[i] and after[i]:
            level[i] = max(0, min(level[j] for j in after[i]) - 1)
    layers: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    alone = []
    for i in range(count):
        if before[i] or after[i]:
            layers[level[i]].append(i)
        else:
            alone.append(i)
    return [layer for layer in (*layers, alone) if layer]


def _spread(widths: Sequence[float], wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Centres as near to the wanted ones as the gaps allow, in least squares (pool adjacent violators)."""
    offsets = [0.0]
    for a, b in itertools.pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + GAP)
    pools: list[tuple[float, float, int]] = []  # weighted sum, weight, how many
    for x, offset, weight in zip(wanted, offsets, weights):
        pools.append(((x - offset) * weight, weight, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            (sum1, weight1, many1), (sum2, weight2, many2) = pools[-2:]
            pools[-2:] = [(sum1 + sum2, weight1 + weight2, many1 + many2)]
    bases = [total / weight for total, weight, many in pools for _ in range(many)]
    return [base + offset for base, offset in zip(bases, offsets)]
