"""The operators between two groups of a plan, and which group feeds which.

By the graphs in ``Report.programs``, so independent of where the operators were
written: on one line, in another function, in another file. Plans beyond the bound
on programs are not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from fusiondoc.graph import DependencyGraph, graph_of
from fusiondoc.model.reasons import Side
from fusiondoc.model.report import Group, Program, ProgramNode, Report, Unfused
from fusiondoc.model.rows_by_index import rows_by_index

_MOST_PASSED = 60
"""The most nodes outside groups that are visited from one group: groups farther
away are not neighbours."""


class _Plan:
    """A program, with the positions of its groups and differentiable graphs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph: DependencyGraph[ProgramNode] = graph_of(program)
        self.groups: dict[str, list[int]] = defaultdict(list)
        self.regions: dict[str, list[int]] = defaultdict(list)
        """Program of a differentiable graph's own executor -> the nodes of that
        graph here."""
        for index, node in enumerate(program.nodes):
            if node.group is not None:
                self.groups[node.group].append(index)
            if node.program is not None:
                self.regions[node.program].append(index)


class GroupNeighbours:
    """The groups of a report that are separated only by operators outside groups,
    and these operators."""

    def __init__(self, report: Report) -> None:
        self._plans = [_Plan(program) for program in report.programs]
        self._known: dict[tuple[str, Side], dict[str, tuple[Unfused, ...]]] = {}
        self._rows = rows_by_index(report)

    def after(self, group: str) -> Mapping[str, tuple[Unfused, ...]]:
        """Return the groups that take results of the group through operators
        outside groups, each with these operators."""
        return self._next(group, "after")

    def before(self, group: str) -> Mapping[str, tuple[Unfused, ...]]:
        """Return the groups whose results the group takes, with the operators in
        between."""
        return self._next(group, "before")

    def between(self, first: str, second: str) -> tuple[Unfused, ...]:
        """Return the operators outside groups between two groups, in either order.
        For backward groups of two differentiable graphs: the operators between
        these graphs."""
        found = self.after(first).get(second) or self.before(first).get(second)
        return found or self._between_gradients(first, second)

    def _next(self, group: str, side: Side) -> dict[str, tuple[Unfused, ...]]:
        known = self._known.get((group, side))
        if known is not None:
            return known
        found: dict[str, dict[int, Unfused]] = {}
        for plan in self._plans:
            if group in plan.groups:
                self._search(plan, plan.groups[group], side, found)
                for outer in self._plans:
                    if plan.program.id in outer.regions:
                        self._search(
                            outer, outer.regions[plan.program.id], side, found
                        )
        self._known[group, side] = {
            name: tuple(rows.values()) for name, rows in found.items()
        }
        return self._known[group, side]

    def _search(
        self,
        plan: _Plan,
        starts: Iterable[int],
        side: Side,
        found: dict[str, dict[int, Unfused]],
    ) -> None:
        """Search from some nodes through nodes outside groups to the next groups,
        and add the rows on the way to each."""
        nodes = plan.program.nodes
        reached = plan.graph.reach(
            starts, side, lambda one: not self._groups_of(nodes[one]), _MOST_PASSED
        )
        ends: dict[str, list[int]] = defaultdict(list)
        for end, _ in reached.ends:
            for name in self._groups_of(nodes[end]):
                ends[name].append(end)
        among = frozenset(reached.passed)
        for name, indexes in ends.items():
            on_the_way = plan.graph.leading_to(indexes, side, among)
            for node in reached.passed:
                row = self._rows.get(nodes[node].row)
                if row is not None and node in on_the_way:
                    found.setdefault(name, {})[id(row)] = row

    def _groups_of(self, node: ProgramNode) -> list[str]:
        """Return the groups of a node: its own, or those in the plan of a
        differentiable graph."""
        if node.group is not None:
            return [node.group]
        if node.program is None:
            return []
        groups: list[str] = []
        for plan in self._plans:
            if plan.program.id == node.program:
                groups.extend(plan.groups)
        return groups

    def _between_gradients(self, first: str, second: str) -> tuple[Unfused, ...]:
        of_first = set()
        for plan in self._plans:
            if first in plan.groups:
                of_first.add(plan.program.id)
        of_second = set()
        for plan in self._plans:
            if second in plan.groups:
                of_second.add(plan.program.id)
        phases = set()
        for plan in self._plans:
            if plan.program.id in of_first | of_second:
                phases.add(plan.program.phase)
        if phases != {"backward"} or of_first & of_second:
            return ()
        rows: dict[int, Unfused] = {}
        for plan in self._plans:
            starts = []
            for nodes in plan.regions.values():
                starts.extend(nodes)
            if len(starts) < 2:
                continue
            found: dict[str, dict[int, Unfused]] = {}
            for start in starts:
                self._search(plan, [start], "after", found)
            for between in found.values():
                rows.update(between)
        return tuple(rows.values())


def feeding(first: Group, programs: Iterable[Program]) -> frozenset[str]:
    """Return the groups whose outputs this one reads, as far as a plan shows it."""
    makers = set()
    for program in programs:
        for before, after in program.edges:
            maker = program.nodes[before].group
            if maker is not None and program.nodes[after].group == first.id:
                makers.add(maker)
    return frozenset(makers)
