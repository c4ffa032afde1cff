"""What lies between two nodes of a plan: another way from one to the other, or what
nothing is moved past.

Each is worked out once a plan or once a node, not for each pair: a value may be
read by all other nodes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from typing import TypeVar
from weakref import WeakKeyDictionary

from fusiondoc.graph import Graph
from fusiondoc.operators import is_in_place
from fusiondoc.parsers.jit.flow import Flow, FlowNode
from fusiondoc.parsers.jit.hubs import most_steps

Step = Callable[[FlowNode], Iterable[int]]
"""The nodes that a way leads to from one node."""


Found = TypeVar("Found")


def once_a_flow(work_out: Callable[[Flow], Found]) -> Callable[[Flow], Found]:
    """What is worked out of a flow, kept for the latest flow: operators are looked
    at flow by flow. It must not hold the flow, which would hold both."""
    latest: WeakKeyDictionary[Flow, Found] = WeakKeyDictionary()

    def of(flow: Flow) -> Found:
        if flow not in latest:
            latest.clear()
            latest[flow] = work_out(flow)
        return latest[flow]

    return of


class Detours:
    """Ways of a plan from one node to another through a third.

    Args:
        steps: where a way goes on.
    """

    def __init__(self, graph: Graph[FlowNode], steps: Step) -> None:
        self._nodes = graph.nodes
        self._steps = steps
        self._order = _numbers_in_order(graph)
        self._left = 5 * most_steps(len(graph.nodes))
        """Steps that are still taken: in a plan beyond that it is not known of all
        pairs."""
        self._known: dict[int, tuple[int, dict[int, int]]] = {}
        """Node -> how far ways from it were followed, and for each node on them
        through which they begin."""
        self._behind: dict[int, tuple[int, dict[int, int]]] = {}
        """The same for ways that begin anywhere, with the first node on them that
        counts; -1 for none."""

    @property
    def spent(self) -> bool:
        """Whether there may be ways that were not found."""
        return self._left <= 0

    def between(
        self,
        first: FlowNode,
        last: FlowNode,
        starts: Iterable[int],
        counts: Callable[[FlowNode], bool],
    ) -> int | None:
        """The first of ``starts`` that counts and from which a way leads to
        ``last``."""

        def follow(far: int) -> dict[int, int]:
            return self._followed(
                {one for one in starts if counts(self._nodes[one])}, far
            )

        return self._found(self._known, first, last, follow).get(last.index)

    def through(
        self,
        first: FlowNode,
        last: FlowNode,
        starts: Iterable[int],
        counts: Callable[[FlowNode], bool],
    ) -> int | None:
        """A node that counts on a way from one of ``starts`` to ``last``, wherever
        on it."""

        def follow(far: int) -> dict[int, int]:
            return self._first_that_counts(set(starts), counts, far)

        one = self._found(self._behind, first, last, follow).get(last.index, -1)
        return one if one >= 0 and one != last.index else None

    def _found(
        self,
        known: dict[int, tuple[int, dict[int, int]]],
        first: FlowNode,
        last: FlowNode,
        follow: Callable[[int], dict[int, int]],
    ) -> dict[int, int]:
        """What is known of the ways from a node, followed as far as another one."""
        far = known[first.index][0] if first.index in known else -1
        end = self._order[last.index]
        if end > far:
            # Twice as far each time: the nodes in question stand at any distance.
            far = max(2 * end - self._order[first.index], end) if far >= 0 else end
            known[first.index] = far, follow(far)
        return known[first.index][1]

    def _first_that_counts(
        self, starts: AbstractSet[int], counts: Callable[[FlowNode], bool], far: int
    ) -> dict[int, int]:
        order, nodes = self._order, self._nodes
        reached = {
            one: one if counts(nodes[one]) else -1
            for one in starts
            if order[one] <= far
        }
        todo = [(order[one], one) for one in reached]
        heapify(todo)
        while todo and self._left > 0:
            here, index = heappop(todo)
            behind = reached[index]
            for step in self._steps(nodes[index]):
                self._left -= 1
                if not here < order[step] <= far:
                    continue
                known = reached.get(step)
                if known is None:
                    heappush(todo, (order[step], step))
                    known = step if counts(nodes[step]) else -1
                # Whatever leads to a node stands before it in the order: it is not
                # settled yet.
                reached[step] = (
                    behind
                    if behind >= 0 and (known < 0 or known == step)
                    else known
                )
        return reached

    def _followed(self, starts: AbstractSet[int], far: int) -> dict[int, int]:
        order = self._order
        reached: dict[int, int] = {}
        todo = [(order[one], one) for one in starts if order[one] < far]
        heapify(todo)
        while todo and self._left > 0:
            here, index = heappop(todo)
            begin = (
                min(reached.get(index, index), index)
                if index in starts
                else reached[index]
            )
            for step in self._steps(self._nodes[index]):
                self._left -= 1
                if not here < order[step] <= far:
                    continue
                known = reached.get(step)
                if known is None and step not in starts:
                    heappush(todo, (order[step], step))
                if known is None or begin < known:
                    reached[step] = begin
        return reached


def _numbers_in_order(graph: Graph[FlowNode]) -> list[int]:
    """For each node its number in the order in which results are made: all ways
    lead to higher ones."""
    numbers = [0] * len(graph.nodes)
    for number, node in enumerate(graph.run_order()):
        numbers[node] = number
    return numbers


class Crossings:
    """What of a plan no operator is moved past."""

    def __init__(self, flow: Flow) -> None:
        self._stops: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        """By block: how many nodes stand before each, and its index."""
        for index, stop in enumerate(flow.stops):
            self._stops.setdefault(stop.block, []).append((stop.before, index))
        self._writers: list[int] = []
        self._waits: dict[tuple[int, ...], list[int]] = {}
        for node in flow.nodes:
            if node.op == "aten::wait":
                self._waits.setdefault(node.block, []).append(node.index)
            elif is_in_place(node.op):
                self._writers.append(node.index)

    def stop(self, low: int, high: int, block: tuple[int, ...]) -> int | None:
        """Which of the stops of the flow stands first between two nodes of one
        block, in that block."""
        stops = self._stops.get(block, [])
        at = bisect_left(stops, (low + 1, 0))
        return stops[at][1] if at < len(stops) and stops[at][0] <= high else None

    def writer(self, low: int, high: int, block: tuple[int, ...]) -> int | None:
        """The first node between two of one block that changes a tensor in place,
        wherever it stands, or that waits in that block."""
        found = [
            _next(indexes, low, high)
            for indexes in (self._writers, self._waits.get(block, ()))
        ]
        return min((one for one in found if one is not None), default=None)


def _next(indexes: Sequence[int], low: int, high: int) -> int | None:
    """The first of them between two node indexes."""
    index = bisect_right(indexes, low)
    return indexes[index] if index < bisect_left(indexes, high) else None
