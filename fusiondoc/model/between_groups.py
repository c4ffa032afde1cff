"""What stands between two fusion groups of a plan: the operators outside groups that part them.

Told from the graphs in ``Report.programs``, so it holds wherever the operators were written: on one line, in
another function, in another file. Plans beyond the bound on programs say nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Iterable, Mapping

from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Program, ProgramNode, Report, Unfused

_MOST_PASSED = 60
"""Nodes outside groups that are looked at from one group: what is farther away parts nothing."""


@dataclass
class _Graph:
    """The edges of one program, and where its groups are."""

    program: Program
    after: Mapping[int, list[int]]
    before: Mapping[int, list[int]]
    groups: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    regions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Program that a differentiable graph's own executor made -> the nodes of that graph here."""


class GroupNeighbours:
    """Which groups of a report are parted only by operators outside groups, and by which."""

    def __init__(self, report: Report) -> None:
        self._graphs = [_graph(program) for program in report.programs]
        self._known: dict[tuple[str, bool], dict[str, tuple[Unfused, ...]]] = {}
        self._rows: dict[tuple[str, str | None, str | None], list[Unfused]] = defaultdict(list)
        for row in report.unfused:
            self._rows[row.op, row.source, row.phase].append(row)

    def after(self, group: str) -> Mapping[str, tuple[Unfused, ...]]:
        """The groups that take what the group makes, through operators outside groups: each with these."""
        return self._next(group, forward=True)

    def before(self, group: str) -> Mapping[str, tuple[Unfused, ...]]:
        """The groups that make what the group takes, with the operators between."""
        return self._next(group, forward=False)

    def between(self, first: str, second: str) -> tuple[Unfused, ...]:
        """The operators outside groups that part two groups, in either order. Those in the backward of two
        differentiable graphs are parted by what parts these graphs."""
        found = self.after(first).get(second) or self.before(first).get(second)
        return found or self._between_gradients(first, second)

    def _next(self, group: str, forward: bool) -> dict[str, tuple[Unfused, ...]]:
        known = self._known.get((group, forward))
        if known is not None:
            return known
        found: dict[str, dict[int, Unfused]] = {}
        for graph in self._graphs:
            if group in graph.groups:
                self._reach(graph, graph.groups[group], forward, found)
                for outer, regions in self._lifted(graph.program.id):
                    self._reach(outer, regions, forward, found)
        self._known[group, forward] = {name: tuple(rows.values()) for name, rows in found.items()}
        return self._known[group, forward]

    def _lifted(self, program: str) -> list[tuple[_Graph, list[int]]]:
        """The differentiable graphs, in their outer programs, whose plan a program is."""
        return [(graph, graph.regions[program]) for graph in self._graphs if program in graph.regions]

    def _reach(
        self,
        graph: _Graph,
        starts: Iterable[int],
        forward: bool,
        found: dict[str, dict[int, Unfused]],
    ) -> None:
        """From some nodes through nodes outside groups to the next groups; what was passed on the way."""
        nodes = graph.program.nodes
        along, back = (graph.after, graph.before) if forward else (graph.before, graph.after)
        passed: list[int] = []
        reached: dict[str, list[int]] = defaultdict(list)
        todo = list(starts)
        seen: set[int] = set()
        while todo and len(passed) <= _MOST_PASSED:
            for place in along.get(todo.pop(0), ()):
                if place in seen:
                    continue
                seen.add(place)
                names = self._groups_of(nodes[place])
                for name in names:
                    reached[name].append(place)
                if not names:
                    passed.append(place)
                    todo.append(place)
        among = set(passed)
        for name, places in reached.items():
            ways = _leading_to(places, back, among)
            rows = [row for place in passed if place in ways for row in self._row(graph, nodes[place])]
            if rows:
                found.setdefault(name, {}).update((id(row), row) for row in rows)

    def _groups_of(self, node: ProgramNode) -> list[str]:
        """The groups that a node is, or that are in the plan of the differentiable graph that it is."""
        if node.group is not None:
            return [node.group]
        if node.program is None:
            return []
        return [name for graph in self._graphs if graph.program.id == node.program for name in graph.groups]

    def _row(self, graph: _Graph, node: ProgramNode) -> list[Unfused]:
        if node.reason is None:
            return []
        rows = self._rows.get((node.op, node.source, graph.program.phase), [])
        exact = [
            row for row in rows if row.reason.code == node.reason and row.reason.text == node.reason_text
        ]
        return (exact or rows)[:1]

    def _between_gradients(self, first: str, second: str) -> tuple[Unfused, ...]:
        plans = [{g.program.id for g in self._graphs if name in g.groups} for name in (first, second)]
        phases = {g.program.phase for g in self._graphs if first in g.groups or second in g.groups}
        if phases != {"backward"} or plans[0] & plans[1]:
            return ()
        rows: dict[int, Unfused] = {}
        for graph in self._graphs:
            starts = [place for places in graph.regions.values() for place in places]
            if len(starts) > 1:
                found: dict[str, dict[int, Unfused]] = {}
                for start in starts:
                    self._reach(graph, [start], True, found)
                for between in found.values():
                    rows.update(between)
        return tuple(rows.values())


def _graph(program: Program) -> _Graph:
    after: dict[int, list[int]] = defaultdict(list)
    before: dict[int, list[int]] = defaultdict(list)
    for one, other in program.edges:
        after[one].append(other)
        before[other].append(one)
    graph = _Graph(program, after, before)
    for place, node in enumerate(program.nodes):
        if node.group is not None:
            graph.groups[node.group].append(place)
        if node.program is not None:
            graph.regions[node.program].append(place)
    return graph


def _leading_to(ends: Iterable[int], back: Mapping[int, list[int]], among: set[int]) -> set[int]:
    """Of some nodes those that lead to the ends."""
    todo = list(ends)
    found: set[int] = set()
    while todo:
        for place in back.get(todo.pop(), ()):
            if place in among and place not in found:
                found.add(place)
                todo.append(place)
    return found
