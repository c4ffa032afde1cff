"""The plans of a run as graphs with their rows: as the fuser left them, and with
their groups taken apart."""

from __future__ import annotations

from bisect import bisect
from collections.abc import (
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from fusiondoc.graph import DependencyGraph, graph_of
from fusiondoc.graph.taken_apart import connected, taken_apart
from fusiondoc.model import dataclass
from fusiondoc.model.report import Group, Program, ProgramNode

PlanGraph = DependencyGraph[ProgramNode]
REGION = "prim::DifferentiableGraph"
"""A node with this operator counts as a group if the operator that ends the
differentiable graph is removed, and may then join others."""


@dataclass(frozen=True)
class PlanOfRun:
    """A plan of the run."""

    graph: PlanGraph
    rows: Sequence[int | None]
    """For each node the position of its row in ``report.unfused``; None if it has
    none."""
    waits: Sequence[tuple[int, int]]
    """Pairs of nodes: the second waits for the first, but takes no tensor of it on
    an edge."""
    stops: Mapping[int | None, Sequence[int]]
    """Block -> for each side effect in it that no group reaches across, the number
    of nodes before it."""
    whole: PlanGraph
    """The plan with whole groups: ``graph`` itself, or the plan of which ``graph``
    has the groups taken apart."""
    origin: Sequence[int]
    """For each node the node of ``whole`` that it is or is part of."""

    def stops_between(self, maker: int, taker: int) -> bool:
        """True if such a side effect is between two nodes, in the block of the
        second."""
        stops = self.stops.get(self.graph.nodes[taker].inside, ())
        return bisect(stops, maker) < bisect(stops, taker)

    @property
    def is_apart(self) -> bool:
        return self.graph is not self.whole

    def are_kept_apart(self, maker: int, taker: int) -> bool:
        """True if they are from two groups of one block that the run did not join,
        with nothing between them that a change could remove. Groups of two blocks
        were separated by the branch between them."""
        one, other = self.origin[maker], self.origin[taker]
        first, last = self.whole.nodes[one], self.whole.nodes[other]
        if (
            one == other
            or not first.kind == last.kind == "group"
            or first.inside != last.inside
        ):
            return False
        return self.whole.detour(one, other) is None

    def changes(self, changed: Iterable[int]) -> list[int]:
        """Return those of these rows that this plan has."""
        mine = {row for row in self.rows if row is not None}
        return [row for row in changed if row in mine]


def plan_of(
    program: Program, position: Mapping[int | None, int], stops: bool
) -> PlanOfRun:
    """Make the graph of a plan.

    Args:
        position: index of a row -> its position in ``report.unfused``.
        stops: no group reaches across a side effect.
    """
    graph = graph_of(program)
    return PlanOfRun(
        graph,
        [position.get(node.row) for node in program.nodes],
        program.waits,
        _by_block(program.stops if stops else ()),
        graph,
        range(len(graph.nodes)),
    )


def plan_taken_apart(plan: PlanOfRun, groups: Mapping[str, Group]) -> PlanOfRun:
    """Return a plan with those groups taken apart whose graphs are known."""
    apart = taken_apart(plan.graph, groups)
    stops = (
        (apart.before(number), block if block is None else apart.parts[block][0])
        for block, numbers in plan.stops.items()
        for number in numbers
    )
    return PlanOfRun(
        apart.graph,
        [plan.rows[origin] for origin in apart.origin],
        list(apart.waits(plan.waits)),
        _by_block(stops),
        plan.graph,
        apart.origin,
    )


def made_otherwise(
    plan: PlanOfRun, unchanged: Sequence[Sequence[int]]
) -> frozenset[int]:
    """Return the nodes of the plan with whole groups that the fuser would group
    differently if it started from the groups taken apart, without any change: the
    effect of a change on these is not known.

    Args:
        unchanged: the groups that the plan taken apart gives without a change.
    """
    return frozenset(_made_otherwise(plan, unchanged))


def parted_by_order(
    plan: PlanOfRun,
    groups: Sequence[Sequence[int]],
    unmerged: Sequence[Sequence[int]],
) -> int:
    """Return how many groups more there may be because parts of a group of the run
    are in several groups of which none waits for another. The order of these
    groups, and so which are merged, is not known: a plan shows the order after the
    pass.

    Args:
        unmerged: the groups before neighbours are merged.
    """
    home, before = _homes(groups), _homes(unmerged)
    found = 0
    for nodes in _parts_of_groups(plan):
        number = len({home[node] for node in nodes if node in home})
        parts = {before[node] for node in nodes if node in before}
        if number > 1 and not any(
            _reaches(plan, unmerged[one], parts - {one}, before) for one in parts
        ):
            found += number - 1
    return found


def _homes(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Map a node to its group."""
    homes = {}
    for number, members in enumerate(groups):
        for node in members:
            homes[node] = number
    return homes


def _parts_of_groups(plan: PlanOfRun) -> Collection[Sequence[int]]:
    """Return the nodes of each group of the run."""
    found: dict[int, list[int]] = {}
    for node, origin in enumerate(plan.origin):
        if plan.whole.nodes[origin].kind == "group":
            found.setdefault(origin, []).append(node)
    return found.values()


def _reaches(
    plan: PlanOfRun,
    start: Sequence[int],
    ends: Container[int],
    home: Mapping[int, int],
) -> bool:
    """True if a result of a group goes to one of other groups, also through further
    groups."""
    of_groups: dict[int, list[int]] = {}
    for node, number in home.items():
        of_groups.setdefault(number, []).append(node)
    todo, seen = list(start), set(start)
    while todo:
        for one in plan.graph.after[todo.pop()]:
            if home.get(one) in ends:
                return True
            for other in of_groups[home[one]] if one in home else (one,):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
    return False


def _made_otherwise(
    plan: PlanOfRun, unchanged: Sequence[Sequence[int]]
) -> Iterator[int]:
    home: dict[int, set[int]] = {}
    for number, members in enumerate(unchanged):
        origins = {plan.origin[node] for node in members}
        if len(origins) > 1 and not any(
            plan.whole.nodes[one].op == REGION for one in origins
        ):
            yield from origins
        for origin in origins:
            home.setdefault(origin, set()).add(number)
    inside = set()
    for members in unchanged:
        for node in members:
            inside.add(plan.origin[node])
    for index in inside:
        if len(home[index]) > 1:
            yield index


class MorePossible(NamedTuple):
    """What the order of a plan before the fusion pass could cost at most."""

    groups: int
    """More groups."""
    operators: int
    """Fewer operators in groups."""


def parted_at_most(
    plan: PlanOfRun, groups: Sequence[Sequence[int]]
) -> MorePossible:
    """Return the most that new groups may cost by standing between two parts of a
    group of the run that share no tensor. The fuser tries to join each group with
    the one before it, and moves the operators that the later one needs up with it:
    a group between the two would have been tried first.

    Args:
        groups: of the plan with its groups taken apart, with the changes.
    """
    new = []
    for members in groups:
        if len(members) > 1 and not _holds_of_run(plan, members):
            new.extend(connected(members, plan.graph.before))
    more, fewer = 0, 0
    for nodes in _parts_of_groups(plan) if new else ():
        parts = connected(nodes, plan.graph.before)
        if len(parts) > 1:
            between = _number_between(plan, parts, new)
            more += min(between, len(parts) - 1)
            if between:
                fewer += sum(len(one) == 1 for one in parts)
    return MorePossible(more, fewer)


def _holds_of_run(plan: PlanOfRun, members: Sequence[int]) -> bool:
    return any(
        plan.whole.nodes[plan.origin[index]].kind == "group" for index in members
    )


def _number_between(
    plan: PlanOfRun,
    parts: Sequence[AbstractSet[int]],
    groups: Iterable[AbstractSet[int]],
) -> int:
    """Return how many of these groups may have been between two of the parts: they
    lead to some parts and not to the first, or they lead to none and are between
    the first part and the first taker of a part's result."""
    graph = plan.graph
    start = min(min(part) for part in parts)
    end = max(_first_taker(graph, part) for part in parts)
    end = min(end, _next_group(plan, start))
    first, *others = (
        _makers_of(graph, part)
        for part in sorted(parts, key=lambda part: min(part))
    )
    found = 0
    for group in groups:
        if any(graph.inside[index] != graph.inside[start] for index in group):
            continue
        if not group.isdisjoint(first):
            continue  # it was before all of them
        to_others = any(not group.isdisjoint(one) for one in others)
        found += to_others or start < max(group) < end
    return found


def _next_group(plan: PlanOfRun, node: int) -> int:
    """Return the first node of the next group of the run in the same block; one
    past the last node if there is none. The parts of a group have no other group
    between them."""
    own, nodes = plan.origin[node], plan.whole.nodes
    for index in range(node, len(plan.origin)):
        other = plan.origin[index]
        if (
            other != own
            and nodes[other].kind == "group"
            and nodes[other].inside == nodes[own].inside
        ):
            return index
    return len(plan.origin)


def _makers_of(graph: PlanGraph, nodes: Iterable[int]) -> set[int]:
    """Return all ancestors of some nodes."""
    found: set[int] = set()
    todo = list(nodes)
    while todo:
        before = set(graph.before[todo.pop()]) - found
        found |= before
        todo += before
    return found


def _first_taker(graph: PlanGraph, part: AbstractSet[int]) -> int:
    """Return the first node that takes a result of a part; one past the last node
    if none does."""
    takers = []
    for node in part:
        for taker in graph.after[node]:
            if taker not in part:
                takers.append(taker)
    return min(takers, default=len(graph.nodes))


def _by_block(
    stops: Iterable[tuple[int, int | None]],
) -> Mapping[int | None, Sequence[int]]:
    found: dict[int | None, list[int]] = {}
    for before, block in stops:
        found.setdefault(block, []).append(before)
    return found
