"""The nodes of a plan that wait for operators which change its tensors in place: no
reader of such a tensor is moved past them
(``AliasDb::moveBeforeTopologicallyValid``, which every fusion pass calls)."""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from fusiondoc.graph import DependencyGraph
from fusiondoc.model.report import ProgramNode
from fusiondoc.operators import BY_NAME, CONTROL_FLOW, HANDS_ON, VIEWS, is_in_place

_APPENDS = "aten::append"


def hands_on(node: ProgramNode) -> bool:
    """True if the result of a node may be its input itself: a cast to another type
    makes a new tensor."""
    if node.op not in HANDS_ON:
        return False
    taken, made = node.inputs[:1], node.outputs[:1]
    is_known = taken and made and "Tensor" not in (*taken, *made)
    return taken == made or not is_known


def _may_hand_on(node: ProgramNode) -> bool:
    """True if a node may return its input, as far as the table of operators shows:
    nothing is known of an operator without a row (``aten::atleast_2d``), and a
    branch returns a value of one of its sides."""
    return hands_on(node) or node.op in CONTROL_FLOW or node.op not in BY_NAME


class ReadBeside:
    """Finds in-place operators that change memory which other nodes of the plan
    read."""

    def __init__(self, graph: DependencyGraph[ProgramNode]) -> None:
        self._graph = graph
        self._memory = _Memory(graph, hands_on)
        self._at_most = _Memory(graph, _may_hand_on)
        self._made_by = self._memory.made_by()
        self._made_at_most = self._at_most.made_by()

    def holds_of(self, writer: int) -> bool:
        """True if a later node reads the memory that the operator changes without
        taking its result, or a list holds it. False if the plan does not show the
        maker of that memory."""
        made = self._made_at_most.get(writer)
        return made is not None and self._at_most.is_read_beside(made, writer)

    def holds_surely_of(self, writer: int) -> bool:
        """Like ``holds_of``, without readers in a branch that contains the
        operator, as these may be on its other side."""
        made = self._made_by.get(writer)
        return made is not None and any(
            self._memory.is_beside(one, writer)
            and self._branches(one).isdisjoint(self._branches(writer))
            for one in self._memory.readers(made, writer)
        )

    def _branches(self, node: int) -> set[int]:
        found: set[int] = set()
        around = self._graph.nodes[node].inside
        while around is not None:
            if self._graph.nodes[around].op == "prim::If":
                found.add(around)
            around = self._graph.nodes[around].inside
        return found

    def maker_of(self, writer: int) -> int | None:
        """Return the node that made the memory; None if the plan does not show
        it."""
        made = self._made_by.get(writer)
        if made is None:
            return None
        return made.node


class InPlaceOrder(NamedTuple):
    """Constraints from in-place operators, in addition to the edges of a plan: node
    -> nodes before it."""

    takes: dict[int, list[int]]
    """The nodes whose result it takes once they are written out of place: it reads
    the tensor that they changed."""
    waits: dict[int, list[int]]
    """The nodes that have to run before it: one of the two changes a tensor that
    the other reads."""


def order_of(
    graph: DependencyGraph[ProgramNode],
    free: Sequence[bool],
    takes_given: Callable[[int], bool],
    joins: AbstractSet[int] = frozenset(),
    skipped: AbstractSet[int] = frozenset(),
) -> InPlaceOrder:
    """Return the constraints from memory that nodes share.

    Args:
        free: for each node whether it could be in a group: an in-place operator
            among them is written out of place.
        takes_given: returns True if a node takes a tensor that no node of the plan
            makes.
        joins: those that write to a part of a tensor, and are rewritten to make the
            whole tensor.
        skipped: nodes that are removed.
    """
    memory = _Memory(graph, by_result=True)
    order = InPlaceOrder({}, {})
    for before, after in memory.order_of_given(free, takes_given, skipped):
        order.waits.setdefault(after, []).append(before)
    writers: dict[_Made, list[int]] = {}
    made_by = memory.made_by()
    for index in memory.writers:
        if index in made_by:
            writers.setdefault(made_by[index], []).append(index)
    for made, of_memory in writers.items():
        readers = memory.readers(made)
        # Through a view it may change a tensor that others read as a whole; out of
        # place it would not.
        stays = []
        for one in of_memory:
            if not free[one] or (
                one not in joins
                and readers.get(one, True)
                and memory.is_read_beside(made, one)
            ):
                stays.append(one)
        staying = frozenset(stays)
        for reader, viewed in readers.items():
            later = bisect(stays, reader)
            if later < len(stays):
                order.waits.setdefault(stays[later], []).append(reader)
            earlier = bisect_left(of_memory, reader) - 1
            if earlier < 0:
                continue
            writer = of_memory[earlier]
            if writer in staying:
                order.waits.setdefault(reader, []).append(writer)
            elif not viewed:
                order.takes.setdefault(reader, []).append(writer)
    return order


class _Made(NamedTuple):
    """The maker of a tensor's memory."""

    node: int
    result: int | None
    """The index of its result; None if not known, or not relevant."""


class _Memory:
    """The nodes of a plan that share memory with their input: views and in-place
    operators."""

    def __init__(
        self,
        graph: DependencyGraph[ProgramNode],
        may_share: Callable[[ProgramNode], bool] = lambda node: False,
        by_result: bool = False,
    ) -> None:
        """Find the views and the in-place operators.

        Args:
            may_share: returns True if a result may share the memory of the first
                input, in addition to views.
            by_result: the results of one node, if they are known, are separate
                memory.
        """
        self._graph = graph
        self._by_result = by_result
        operators = []
        for i, one in enumerate(graph.nodes):
            if one.kind == "operator":
                operators.append(i)
        self.writers = [i for i in operators if is_in_place(graph.nodes[i].op)]
        """In the order of the plan."""
        self._views = set()
        for i in operators:
            if graph.nodes[i].op in VIEWS or may_share(graph.nodes[i]):
                self._views.add(i)
        self._shares = self._views.union(self.writers)
        self._branches = set()
        for i, one in enumerate(graph.nodes):
            if one.kind == "control" and may_share(one):
                self._branches.add(i)

    def made_by(self) -> dict[int, _Made]:
        """Map each node that changes or views a tensor to the node that made its
        memory, if that is in the plan."""
        made: dict[int, _Made] = {}
        unknown: set[int] = set()
        for index in sorted(self._shares):
            node = self._graph.nodes[index]
            if node.first is None or node.first >= index:
                continue
            if node.first not in made and (
                not self._by_result or node.first_result is None
            ):
                unknown.add(node.first)
            made[index] = made.get(node.first, _Made(node.first, node.first_result))
        return {
            index: one._replace(result=None) if one.node in unknown else one
            for index, one in made.items()
        }

    def _takes(self, taker: int, made: _Made) -> bool:
        """True if a node takes a result of another one, or may."""
        results = []
        for maker, result in self._graph.nodes[taker].takes:
            if maker == made.node:
                results.append(result)
        return made.result is None or not results or made.result in results

    def order_of_given(
        self,
        free: Sequence[bool],
        takes_given: Callable[[int], bool],
        skipped: AbstractSet[int],
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of nodes of which the first has to run before the second, for
        operators that stay in place and change an input of the plan.

        All inputs of a plan, all attributes of modules and all elements of lists
        among them may share memory (``setWildcard`` of
        torch/csrc/jit/ir/alias_analysis.cpp): no reader of any of them is moved
        past such an operator, as past the batch counter of every batch norm in
        training.
        """
        given = self._given()
        writer, readers = None, list[int]()
        for index, node in enumerate(self._graph.nodes):
            if index in skipped:
                continue
            if (
                is_in_place(node.op)
                and not free[index]
                and (node.first is None or node.first in given)
            ):
                for reader in readers:
                    yield reader, index
                if writer is not None:
                    yield writer, index
                writer, readers = index, []
            elif takes_given(index) or not given.isdisjoint(
                self._graph.before[index]
            ):
                readers.append(index)
                if writer is not None:
                    yield writer, index

    def _given(self) -> set[int]:
        """Return the nodes whose result is memory of an input of the plan: views of
        it, and operators that change it in place."""
        given: set[int] = set()
        for index in sorted(self._shares):
            first = self._graph.nodes[index].first
            if first is None or first in given:
                given.add(index)
        return given

    def is_read_beside(self, made: _Made, writer: int) -> bool:
        """True if a node after an in-place operator reads the memory that it
        changes without taking its result, or a node put it into a list."""
        return any(
            self.is_beside(one, writer) for one in self.readers(made, writer)
        )

    def is_beside(self, reader: int, writer: int) -> bool:
        """True if the reader comes after the operator, or keeps the memory in a
        list."""
        return reader > writer or self._graph.nodes[reader].op == _APPENDS

    def readers(self, made: _Made, without: int | None = None) -> dict[int, bool]:
        """Return every node that takes a tensor in this memory, with True if it
        takes only a view of it.

        Args:
            without: a node whose takers are not followed.
        """
        found: dict[int, bool] = {}
        todo = [(made.node, made.node in self._views)]
        while todo:
            index, viewed = todo.pop()
            if index == without:
                continue
            for one in self._graph.after[index]:
                if (one in found and (viewed or not found[one])) or (
                    index == made.node and not self._takes(one, made)
                ):
                    continue
                found[one] = viewed
                if one in self._shares or one in self._branches:
                    todo.append((one, viewed or one in self._views))
        return found
