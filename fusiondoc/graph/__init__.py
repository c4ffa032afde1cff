"""The graph of a plan: its nodes, and the edges from a node to the takers of its
result.

A node is a fusion group, a differentiable graph (region), a branch or loop
(control) or an operator; an edge is a tensor that goes from one node to another.
Guards, profile nodes, tuples and lists are no nodes. All functions use node
indexes: the position of a node in its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, NamedTuple, Protocol, TypeVar

from fusiondoc.model.reasons import Side
from fusiondoc.model.report import Program, ProgramNode
from fusiondoc.parsers.ir.types import bytes_once
from fusiondoc.parsers.jit.flow import GROUP, OPERATOR, Flow, FlowNode


class _Node(Protocol):
    """The attributes of a node that a graph reads; nodes of a log and of a report
    have them."""

    @property
    def kind(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...


AnyNode = TypeVar("AnyNode", bound=_Node)


class Reached(NamedTuple):
    """The nodes that a search found on one side of some nodes, nearest first."""

    ends: tuple[tuple[int, tuple[int, ...]], ...]
    """Nodes at which the search ended, each with the nodes on the way to it."""
    passed: tuple[int, ...]
    """Nodes that the search went through."""
    whole: bool
    """True if the search did not stop at its bound."""


class DependencyGraph(Generic[AnyNode]):
    """A plan.

    Args:
        nodes: in the order of the plan.
        before: for each node the nodes whose results it takes; ``after``: those
            that take its result.
        inside: for each node the innermost branch, loop or region that contains it;
            None if there is none.
    """

    most_passed = 100
    """The most transparent nodes, such as views, that a search goes through."""

    def __init__(
        self,
        nodes: Sequence[AnyNode],
        before: Sequence[Collection[int]],
        after: Sequence[Collection[int]],
        inside: Sequence[int | None],
    ) -> None:
        self.nodes = nodes
        self.before = before
        self.after = after
        self.inside = inside

    def part(self, nodes: Sequence[int]) -> DependencyGraph[AnyNode]:
        """Return some of the nodes with the edges between them; node indexes then
        refer to ``nodes``.

        Args:
            nodes: in the order of the plan, with the branches, loops and regions
                that contain them.
        """
        number = {node: at for at, node in enumerate(nodes)}

        def kept(beside: Collection[int]) -> list[int]:
            return [number[other] for other in beside if other in number]

        inside: list[int | None] = []
        for node in nodes:
            block = self.inside[node]
            inside.append(number.get(block) if block is not None else None)
        return DependencyGraph(
            [self.nodes[node] for node in nodes],
            [kept(self.before[node]) for node in nodes],
            [kept(self.after[node]) for node in nodes],
            inside,
        )

    def block_around(self, block: int | None, gone: Container[int]) -> int | None:
        """Return the innermost block that stays, among a branch, loop or region and
        those around it; None if none stays."""
        while block is not None and block in gone:
            block = self.inside[block]
        return block

    def side(self, side: Side) -> Sequence[Collection[int]]:
        if side == "before":
            return self.before
        return self.after

    def reach(
        self,
        starts: Iterable[int],
        side: Side,
        through: Callable[[int], bool],
        most: int | None = None,
    ) -> Reached:
        """Return the nodes next to some nodes on one side, looking through
        transparent nodes.

        Args:
            through: returns True for a transparent node, behind which the search
                goes on.
            most: nodes that the search goes through at most; default
                ``most_passed``.
        """
        most = self.most_passed if most is None else most
        beside = self.side(side)
        todo: list[tuple[int, tuple[int, ...]]] = [(start, ()) for start in starts]
        seen: set[int] = set()
        ends: list[tuple[int, tuple[int, ...]]] = []
        passed: list[int] = []
        whole = True
        for node, way in todo:  # the list grows
            for other in sorted(beside[node]):
                if other in seen:
                    continue
                seen.add(other)
                if not through(other):
                    ends.append((other, way))
                elif len(passed) < most:
                    passed.append(other)
                    todo.append((other, (*way, other)))
                else:
                    whole = False
        return Reached(tuple(ends), tuple(passed), whole)

    def leading_to(
        self, ends: Iterable[int], side: Side, among: Container[int]
    ) -> set[int]:
        """Return the nodes of ``among`` from which a path on one side leads to the
        ends through nodes of ``among`` only."""
        back = self.before if side == "after" else self.after
        todo = list(ends)
        found: set[int] = set()
        while todo:
            for node in back[todo.pop()]:
                if node in among and node not in found:
                    found.add(node)
                    todo.append(node)
        return found

    def detour(self, first: int, last: int) -> int | None:
        """Return the node with which another path than their edge begins, from one
        node to a later node of the same block; None if there is none."""
        leading = self.leading_to([last], "after", range(first + 1, last))
        starts = leading.intersection(self.after[first])
        if starts:
            for start in self.after[first]:
                if start in starts:
                    return start
        return None

    def run_order(self) -> list[int]:
        """Return the nodes in the order in which their results are available: a
        branch, loop or region has its results after the nodes in it."""
        order: list[int] = []
        open_blocks: list[int] = []
        for index, node in enumerate(self.nodes):
            while open_blocks and self.inside[index] != open_blocks[-1]:
                order.append(open_blocks.pop())
            if node.kind in (GROUP, OPERATOR):
                order.append(index)
            else:
                open_blocks.append(index)
        return order + open_blocks[::-1]

    def tensor_between(self, maker: int, taker: int) -> str:
        """Return the type of the tensor that goes from one node to another;
        "Tensor" if it is not known."""
        made, taken = self.nodes[maker].outputs, self.nodes[taker].inputs
        for one in made:
            if one in taken:
                return one
        for one in (*made, *taken[:1]):
            if one.endswith(")"):
                return one
        return "Tensor"

    def traffic(self, members: Sequence[int]) -> int | None:
        """Return the bytes that one kernel of these nodes would move: each tensor
        that it takes is read once; each one that another node takes (or none, as a
        result of the plan) is written once. An input of the plan that several of
        the nodes take counts for each, as it has no edge. None if a size is not
        known."""
        inside = set(members)
        types: list[str] = []
        read: set[int] = set()
        for node in members:
            types += self._read_from_outside(node, inside, read)
            takers = self.after[node]
            if not takers or not inside.issuperset(takers):
                types += self.nodes[node].outputs
        total = 0
        for one in types:
            size = bytes_once(one) if one != "Tensor?" else 0
            if size is None:
                return None
            total += size
        return total

    def _read_from_outside(
        self, node: int, inside: AbstractSet[int], read: set[int]
    ) -> list[str]:
        """Return the types of the tensors that a node takes and that its kernel has
        to read.

        Args:
            read: the nodes outside whose results the kernel already reads; those of
                this node are added.
        """
        types = list(self.nodes[node].inputs)
        for maker in self.before[node]:
            shared = [one for one in self.nodes[maker].outputs if one in types]
            if shared and (maker in inside or maker in read):
                types.remove(shared[0])
            if shared:
                read.add(maker)
        return types

    def kept_in_registers(
        self, members: Sequence[int], views: AbstractSet[int]
    ) -> int | None:
        """Return the bytes that one kernel of these nodes does not move: a tensor
        between two of them is not read by each taker, and not written if no other
        node takes it. Unknown sizes count as 0; None if no size is known.

        Args:
            views: nodes that move no data: they read nothing.
        """
        inside = set(members)
        sizes: list[int] = []
        for maker in inside:
            takers = self.after[maker]
            readers = []
            for node in takers:
                if node in inside and node not in views:
                    readers.append(node)
            size = None
            if readers:
                size = bytes_once(self.tensor_between(maker, readers[0]))
            if size is None:
                continue
            written = not inside.issuperset(takers)
            sizes.append(size * (len(readers) + (not written)))
        if sizes:
            return sum(sizes)
        return None


def graph_of(program: Program) -> DependencyGraph[ProgramNode]:
    """Return the graph of a plan in a report."""
    before: list[list[int]] = [[] for _ in program.nodes]
    after: list[list[int]] = [[] for _ in program.nodes]
    for maker, taker in program.edges:
        before[taker].append(maker)
        after[maker].append(taker)
    return DependencyGraph(
        program.nodes, before, after, [node.inside for node in program.nodes]
    )


def graph_of_flow(flow: Flow) -> DependencyGraph[FlowNode]:
    """Return the graph of a plan in a log, with the neighbours that the rules for
    reasons use."""
    nodes = flow.nodes
    inside = [node.block[-1] if node.block else None for node in nodes]
    return DependencyGraph(
        nodes,
        [node.before for node in nodes],
        [node.after for node in nodes],
        inside,
    )
