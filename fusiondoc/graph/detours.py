"""Obstacles between two nodes of a plan: detours, which are further paths from one
to the other, and nodes that no operator is moved past.

Each is computed once for a plan or a node, not for each pair: all other nodes may
read one value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from typing import TypeVar
from weakref import WeakKeyDictionary

from fusiondoc.graph import DependencyGraph
from fusiondoc.operators import is_in_place
from fusiondoc.parsers.jit.flow import Flow, FlowNode
from fusiondoc.parsers.jit.hubs import most_steps

Step = Callable[[FlowNode], Iterable[int]]
"""Returns the nodes that follow a node on a path."""


Found = TypeVar("Found")


def once_a_flow(work_out: Callable[[Flow], Found]) -> Callable[[Flow], Found]:
    """Cache a function of a flow for the latest flow: operators are handled flow by
    flow. The result must not refer to the flow, as the flow would then never be
    freed."""
    latest: WeakKeyDictionary[Flow, Found] = WeakKeyDictionary()

    def of(flow: Flow) -> Found:
        if flow not in latest:
            latest.clear()
            latest[flow] = work_out(flow)
        return latest[flow]

    return of


class Detours:
    """Paths of a plan from one node to another through a third.

    Args:
        steps: returns the nodes that follow a node on a path.
    """

    def __init__(self, graph: DependencyGraph[FlowNode], steps: Step) -> None:
        self._nodes = graph.nodes
        self._steps = steps
        self._order = _numbers_in_order(graph)
        self._left = 5 * most_steps(len(graph.nodes))
        """Steps left: if a plan needs more, not all pairs are checked."""
        self._known: dict[int, tuple[int, dict[int, int]]] = {}
        """Node -> the order number up to which its paths were followed, and for
        each node on them the first node of the path."""
        self._behind: dict[int, tuple[int, dict[int, int]]] = {}
        """The same for paths that begin at any node, with the first node on them
        that counts; -1 for none."""

    @property
    def spent(self) -> bool:
        """True if there may be paths that were not found."""
        return self._left <= 0

    def between(
        self,
        first: FlowNode,
        last: FlowNode,
        starts: Iterable[int],
        counts: Callable[[FlowNode], bool],
    ) -> int | None:
        """Return the first of ``starts`` that counts and from which a path leads to
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
        """Return a node that counts on a path from one of ``starts`` to ``last``,
        at any position."""

        def follow(far: int) -> dict[int, int]:
            return self._first_that_counts(set(starts), counts, far)

        one = self._found(self._behind, first, last, follow).get(last.index, -1)
        if one >= 0 and one != last.index:
            return one
        return None

    def _found(
        self,
        known: dict[int, tuple[int, dict[int, int]]],
        first: FlowNode,
        last: FlowNode,
        follow: Callable[[int], dict[int, int]],
    ) -> dict[int, int]:
        """Return the known paths from a node, followed at least as far as another
        node."""
        far = known[first.index][0] if first.index in known else -1
        end = self._order[last.index]
        if end > far:
            # Twice as far each time: the requested nodes are at any distance.
            far = max(2 * end - self._order[first.index], end) if far >= 0 else end
            known[first.index] = far, follow(far)
        return known[first.index][1]

    def _first_that_counts(
        self, starts: AbstractSet[int], counts: Callable[[FlowNode], bool], far: int
    ) -> dict[int, int]:
        order, nodes = self._order, self._nodes
        reached = {}
        for one in starts:
            if order[one] <= far:
                reached[one] = one if counts(nodes[one]) else -1
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
                # All nodes that lead to a node are before it in the order: it is
                # not settled yet.
                if behind >= 0 and (known < 0 or known == step):
                    reached[step] = behind
                else:
                    reached[step] = known
        return reached

    def _followed(self, starts: AbstractSet[int], far: int) -> dict[int, int]:
        order = self._order
        reached: dict[int, int] = {}
        todo = []
        for one in starts:
            if order[one] < far:
                todo.append((order[one], one))
        heapify(todo)
        while todo and self._left > 0:
            here, index = heappop(todo)
            if index in starts:
                begin = min(reached.get(index, index), index)
            else:
                begin = reached[index]
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


def _numbers_in_order(graph: DependencyGraph[FlowNode]) -> list[int]:
    """Return for each node its number in the order in which results are made: all
    paths lead to higher numbers."""
    numbers = [0] * len(graph.nodes)
    for number, node in enumerate(graph.run_order()):
        numbers[node] = number
    return numbers


class Barriers:
    """The nodes of a plan that no operator is moved past."""

    def __init__(self, flow: Flow) -> None:
        self._stops: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        """Block -> for each stop the number of nodes before it, and its index."""
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
        """Return the index of the flow's first stop between two nodes of one block,
        in that block."""
        stops = self._stops.get(block, [])
        at = bisect_left(stops, (low + 1, 0))
        if at < len(stops) and stops[at][0] <= high:
            return stops[at][1]
        return None

    def writer(self, low: int, high: int, block: tuple[int, ...]) -> int | None:
        """Return the first node between two nodes of one block that changes a
        tensor in place, in any block, or that waits, in this block."""
        found = []
        for indexes in (self._writers, self._waits.get(block, ())):
            found.append(_next(indexes, low, high))
        return min((one for one in found if one is not None), default=None)


def _next(indexes: Sequence[int], low: int, high: int) -> int | None:
    """Return the first index strictly between two node indexes."""
    index = bisect_right(indexes, low)
    if index < bisect_left(indexes, high):
        return indexes[index]
    return None
