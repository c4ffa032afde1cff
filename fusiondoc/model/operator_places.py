"""Where the operators of a report stand: in which module of the model, and between which groups of a plan.

Modules are told from the layers in a report: their tree with the share of each that is fused, and paths that
differ in numbers only as one (``layer.[0-11]``). What parts two fusion groups is told from the graphs in
``Report.programs``, so it holds wherever the operators were written: on one line, in another function, in
another file. Plans beyond the bound on programs say nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from fusiondoc.model import dataclass, field
from fusiondoc.model.numbers import all_whole, in_natural_order
from fusiondoc.model.report import Group, Instance, Program, ProgramNode, Report, Unfused, rows_by_index

NO_OPERATORS = ("prim::GetAttr",)
"""Nodes with a tensor that read a module's attribute: in the JSON report, noise for a reader."""


def outside(report: Report) -> list[Unfused]:
    """The unfused operators that are worth showing: those that ran."""
    return [row for row in report.unfused if row.op not in NO_OPERATORS and row.ran is not False]


@dataclass(frozen=True)
class InLayer:
    """Operators of one module, or of several, in groups (over instances) and outside them."""

    fused: int = 0
    unfused: int = 0

    @property
    def share(self) -> float | None:
        """Of them all, how much is in groups; None without any."""
        total = self.fused + self.unfused
        return self.fused / total if total else None

    def __add__(self, other: InLayer) -> InLayer:
        return InLayer(self.fused + other.fused, self.unfused + other.unfused)


def operators_by_layer(report: Report) -> dict[str, InLayer]:
    """The operators of each module itself, without those of modules in it; what has no layer is in none."""
    found: dict[str, InLayer] = {}
    for group in report.groups:
        for one in group.instances if group.specialisation == 1 else ():
            if one.layer is not None:
                found[one.layer] = found.get(one.layer, InLayer()) + InLayer(fused=group.size)
    for row in outside(report):
        for layer, number in zip(row.layers, row.layer_counts):
            found[layer] = found.get(layer, InLayer()) + InLayer(unfused=number)
    return found


@dataclass(frozen=True)
class Module:
    """A module with all modules in it. A module that only holds one other is one with that."""

    name: str
    """Below the module that it is in: ``attention.self``."""
    path: str
    fused: int
    """Operators in groups, over instances."""
    unfused: int
    """Operators outside every group."""
    ms: float | None
    """Of one launch of each kernel of its instances, in milliseconds; None where none was timed."""
    inside: tuple[Module, ...]

    @property
    def share(self) -> float | None:
        """Of its operators, how much is in groups."""
        return InLayer(self.fused, self.unfused).share


def module_tree(report: Report) -> tuple[Module, ...]:
    """The outermost modules, by name. What has no layer is in none of them."""
    top = _Node()
    for layer, has in operators_by_layer(report).items():
        node = top.at(layer)
        node.fused, node.unfused = has.fused, has.unfused
    kernels = {k.id: k.ms.median for k in report.kernels if k.ms is not None}
    for group in report.groups:
        for one in group.instances if group.specialisation == 1 else ():
            took = _took(group, one, kernels) if one.layer is not None else None
            if one.layer is not None and took is not None:
                node = top.at(one.layer)
                node.ms = (node.ms or 0.0) + took
    return top.modules("")


def _took(group: Group, one: Instance, kernels: Mapping[str, float]) -> float | None:
    """Milliseconds of one run of an instance. Segments run one after the other; without segments, several
    kernels are for several shapes, and the slowest counts."""
    known = [kernels[name] for name in one.kernels if name in kernels]
    if not known:
        return None
    return sum(known) if group.segments else max(known)


class _Node:
    def __init__(self) -> None:
        self.fused = 0
        self.unfused = 0
        self.ms: float | None = None
        self._inside: dict[str, _Node] = {}

    def at(self, path: str) -> _Node:
        node = self
        for name in path.split("."):
            node = node._inside.setdefault(name, _Node())
        return node

    def modules(self, path: str) -> tuple[Module, ...]:
        made = (node.module(name, path) for name, node in self._inside.items())
        return tuple(sorted(made, key=lambda one: in_natural_order(one.name)))

    def module(self, name: str, above: str) -> Module:
        path = f"{above}.{name}" if above else name
        if len(self._inside) == 1 and not self.fused and not self.unfused:
            ((inner, node),) = self._inside.items()
            only = node.module(inner, path)
            return Module(f"{name}.{only.name}", only.path, only.fused, only.unfused, only.ms, only.inside)
        inside = self.modules(path)
        return Module(
            name,
            path,
            self.fused + sum(one.fused for one in inside),
            self.unfused + sum(one.unfused for one in inside),
            _sum([self.ms, *(one.ms for one in inside)]),
            inside,
        )


def _sum(times: Iterable[float | None]) -> float | None:
    known = [one for one in times if one is not None]
    return sum(known) if known else None


_PATH_NUMBER = re.compile(r"(\d+)")
_Numbers = tuple["tuple[int, ...]", ...]
"""The numbers at each place of a path that are folded into it."""


def fold(layers: Iterable[str | None]) -> list[str]:
    """``encoder.layer.[0-11].output`` for the twelve paths that differ in this number only.

    In the order of the first ones. Paths with several numbers fold where all combinations are there:
    ``layer[1-4].[0-1].bn1``.
    """
    skeletons: dict[tuple[str, ...], dict[_Numbers, None]] = {}
    for layer in layers:
        if layer:
            parts = _PATH_NUMBER.split(layer)
            numbers = all_whole(parts[1::2])
            if numbers is None or list(map(str, numbers)) != parts[1::2]:  # "007" is a name
                skeletons.setdefault((layer,), {})[()] = None
            else:
                skeletons.setdefault(tuple(parts[::2]), {})[tuple((one,) for one in numbers)] = None
    return [
        _written(texts, numbers) for texts, several in skeletons.items() for numbers in _merged(list(several))
    ]


def folded(layers: Iterable[str | None], most: int = 3) -> str:
    """The same in one text; "" without a layer. At most ``most`` patterns are written out."""
    patterns = fold(layers)
    left = len(patterns) - most
    if left > 0:
        return ", ".join(patterns[:most]) + f" and {left:,} more"
    return ", ".join(patterns)


def _merged(rows: list[_Numbers]) -> list[_Numbers]:
    """The last number is folded first."""
    for place in reversed(range(len(rows[0]))):
        others: dict[tuple[_Numbers, _Numbers], list[int]] = {}
        for row in rows:
            others.setdefault((row[:place], row[place + 1 :]), []).extend(row[place])
        rows = [(*before, tuple(sorted(set(here))), *after) for (before, after), here in others.items()]
    return rows


def _written(texts: tuple[str, ...], numbers: _Numbers) -> str:
    written = texts[0]
    for several, text in zip(numbers, texts[1:]):
        written += (str(several[0]) if len(several) == 1 else f"[{_ranges(several)}]") + text
    return written


def _ranges(numbers: tuple[int, ...]) -> str:
    """``0-2,5`` of 0, 1, 2, 5."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def layers_of_kernels(report: Report) -> Mapping[str, tuple[str, ...]]:
    """Of each kernel (by id) the layers of the instances that it runs; of its groups where that is not
    known."""
    found: dict[str, dict[str, None]] = {}
    for group in report.groups:
        told = any(one.kernels for one in group.instances)
        for one in group.instances:
            for kernel in (one.kernels if told else group.kernels) if one.layer else ():
                found.setdefault(kernel, {})[str(one.layer)] = None
    return {kernel: tuple(layers) for kernel, layers in found.items()}


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
        self._rows = rows_by_index(report)

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
            found_rows = [self._rows.get(nodes[place].row) for place in passed if place in ways]
            rows = [row for row in found_rows if row is not None]
            if rows:
                found.setdefault(name, {}).update((id(row), row) for row in rows)

    def _groups_of(self, node: ProgramNode) -> list[str]:
        """The groups that a node is, or that are in the plan of the differentiable graph that it is."""
        if node.group is not None:
            return [node.group]
        if node.program is None:
            return []
        return [name for graph in self._graphs if graph.program.id == node.program for name in graph.groups]

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


def feeding(first: Group, programs: Iterable[Program]) -> frozenset[str]:
    """The groups whose outputs this one reads, where a plan shows it."""
    return frozenset(
        maker
        for program in programs
        for before, after in program.edges
        for maker in (program.nodes[before].group,)
        if maker is not None and program.nodes[after].group == first.id
    )
