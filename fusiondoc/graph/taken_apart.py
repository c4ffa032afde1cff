"""A plan with its groups taken apart into their operators, as the fusion pass may
have found it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fusiondoc.graph import DependencyGraph
from fusiondoc.model import dataclass
from fusiondoc.model.groups import Wiring
from fusiondoc.model.report import Group, ProgramNode

_LIST = "prim::ListConstruct"


@dataclass(frozen=True)
class TakenApart:
    """A plan in which each group whose graph is known is replaced by its
    operators."""

    graph: DependencyGraph[ProgramNode]
    origin: Sequence[int]
    """For each node the node of the plan that it is or is part of."""
    parts: Sequence[Sequence[int]]
    """For each node of the plan its nodes in ``graph``."""
    makers: Sequence[Sequence[int]]
    """For each node of the plan those of its nodes in ``graph`` that make its
    results."""

    def waits(self, waits: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield pairs of nodes of the plan as pairs of nodes here."""
        for first, last in waits:
            for one in self.makers[first]:
                for other in self.parts[last]:
                    yield one, other

    def before(self, number: int) -> int:
        """Return how many nodes here stand for the first ``number`` nodes of the
        plan."""
        if number < len(self.parts):
            return self.parts[number][0]
        return len(self.origin)


def taken_apart(
    graph: DependencyGraph[ProgramNode], groups: Mapping[str, Group]
) -> TakenApart:
    """Return the plan with those groups taken apart whose graphs are known."""
    bodies = {}
    for index, node in enumerate(graph.nodes):
        group = groups.get(node.group or "")
        if group is not None and _is_known(group, node):
            bodies[index] = _Body(group)
    return _Parts(graph, bodies).joined()


def _is_known(group: Group, node: ProgramNode) -> bool:
    """True if all operators of a group and their inputs are known; a differentiable
    graph that counts as its group has other inputs."""
    takes = group.wiring.takes
    if not takes or len(takes) != len(group.nodes) or group.nodes_left_out:
        return False
    return len(group.inputs) == len(node.given) and not group.values_left_out


class _Body:
    """The operators of a group without lists, in an order in which the pass may
    have found them: each part that shares no tensor with the others was moved
    before the part that it was merged with (``tryMerge``), so the last part was the
    first."""

    def __init__(self, group: Group) -> None:
        wiring = _without_lists(
            [one.op == _LIST for one in group.nodes], group.wiring
        )
        ops = [one.op for one in group.nodes if one.op != _LIST]
        parts = sorted(map(sorted, connected(range(len(ops)), wiring.takes)))
        order = []
        for part in reversed(parts):
            order.extend(part)
        number = {index: at for at, index in enumerate(order)}
        self.ops = [ops[index] for index in order]
        self.takes = []
        for index in order:
            self.takes.append([number.get(one, one) for one in wiring.takes[index]])
        self.makes = [number.get(one, one) for one in wiring.makes]


def connected(
    nodes: Iterable[int], takes: Sequence[Iterable[int]]
) -> list[set[int]]:
    """Return some nodes in parts that share no tensor.

    Args:
        nodes: each after those of them whose results it takes.
        takes: for each node those whose results it takes; nodes that are not in
            ``nodes`` connect nothing.
    """
    parts: list[set[int]] = []
    for node in nodes:
        beside = [part for part in parts if not part.isdisjoint(takes[node])]
        parts = [part for part in parts if part not in beside]
        parts.append({node}.union(*beside))
    return parts


def _without_lists(lists: Sequence[bool], wiring: Wiring) -> Wiring:
    """Return the wiring without lists: a node that takes a list takes its
    elements."""
    number: dict[int, int] = {}
    elements: dict[int, tuple[int, ...]] = {}
    takes: list[tuple[int, ...]] = []
    for index, (is_list, taken) in enumerate(zip(lists, wiring.takes)):
        own: list[int] = []
        for one in taken:
            own += elements[one] if one in elements else (number.get(one, one),)
        if is_list:
            elements[index] = tuple(own)
        else:
            number[index] = len(takes)
            takes.append(tuple(own))
    return Wiring(tuple(takes), tuple(number.get(one, one) for one in wiring.makes))


class _Parts:
    """Makes the nodes and edges of a plan with some groups taken apart."""

    def __init__(
        self, graph: DependencyGraph[ProgramNode], bodies: Mapping[int, _Body]
    ) -> None:
        self._graph = graph
        self._bodies = bodies
        self._parts: list[range] = []
        start = 0
        for index in range(len(graph.nodes)):
            size = len(bodies[index].ops) if index in bodies else 1
            self._parts.append(range(start, start + size))
            start += size

    def joined(self) -> TakenApart:
        nodes: list[ProgramNode] = []
        origin: list[int] = []
        for index, node in enumerate(self._graph.nodes):
            nodes += self._nodes_of(index, node)
            origin += [index] * len(self._parts[index])
        before: list[list[int]] = [[] for _ in nodes]
        after: list[list[int]] = [[] for _ in nodes]
        for maker, taker in dict.fromkeys(self._edges()):
            before[taker].append(maker)
            after[maker].append(taker)
        graph = DependencyGraph(
            nodes, before, after, [node.inside for node in nodes]
        )
        makers = [self._makers(index, None) for index in range(len(self._parts))]
        return TakenApart(graph, origin, self._parts, makers)

    def _nodes_of(self, index: int, node: ProgramNode) -> Iterator[ProgramNode]:
        """Yield the nodes that replace a node of the plan."""
        inside = self._parts[node.inside][0] if node.inside is not None else None
        body = self._bodies.get(index)
        if body is None:
            first = None
            if node.first is not None:
                first = self._maker(node.first, node.first_result)
            takes = dict.fromkeys(
                (self._maker(maker, result), self._result(maker, result))
                for maker, result in node.takes
            )
            result = node.first_result if node.first not in self._bodies else 0
            yield replace(
                node,
                inside=inside,
                first=first,
                first_result=result,
                takes=tuple(takes),
            )
            return
        for op, taken in zip(body.ops, body.takes):
            made = [node.given[-1 - one] if one < 0 else None for one in taken]
            inputs = tuple("Tensor" if one < 0 else "" for one in taken)
            yield replace(
                node,
                op=op,
                group=None,
                inside=inside,
                inputs=inputs,
                takes=(),
                given=tuple(made),
            )

    def _maker(self, node: int, result: int | None) -> int:
        """Return the node that makes a result of a node of the plan."""
        body = self._bodies.get(node)
        if (
            body is None
            or result is None
            or result >= len(body.makes)
            or body.makes[result] < 0
        ):
            return self._parts[node][-1]
        return self._parts[node][body.makes[result]]

    def _result(self, node: int, result: int) -> int:
        if node in self._bodies:
            return 0
        return result

    def _makers(self, node: int, taker: ProgramNode | None) -> list[int]:
        """Return the makers of those results of a node that another node of the
        plan takes, or of all its results."""
        if node not in self._bodies:
            return [self._parts[node][0]]
        results = []
        if taker is not None:
            results = [result for maker, result in taker.takes if maker == node]
        every = results or range(len(self._bodies[node].makes))
        return [self._maker(node, result) for result in every]

    def _edges(self) -> Iterator[tuple[int, int]]:
        for taker, node in enumerate(self._graph.nodes):
            body = self._bodies.get(taker)
            if body is not None:
                yield from self._edges_into(taker, node, body)
                continue
            for maker in self._graph.before[taker]:
                for one in self._makers(maker, node):
                    yield one, self._parts[taker][0]

    def _edges_into(
        self, taker: int, node: ProgramNode, body: _Body
    ) -> Iterator[tuple[int, int]]:
        """Yield the edges to the operators of a group, and between them."""
        start = self._parts[taker][0]
        known = {made[0] for made in node.given if made is not None}
        unknown = []
        for maker in self._graph.before[taker]:
            if maker not in known:
                unknown.append(maker)
        for index, taken in enumerate(body.takes):
            for one in taken:
                if one >= 0:
                    yield start + one, start + index
                    continue
                made = node.given[-1 - one]
                if made is not None:
                    yield self._maker(*made), start + index
                else:
                    for maker in unknown:
                        for part in self._makers(maker, node):
                            yield part, start + index
