"""The neighbours of operators outside groups in the plans of the run, by the
operators' rows."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.diagnosis.promoted_types import is_promoted
from fusiondoc.graph import DependencyGraph, graph_of
from fusiondoc.graph.shared_memory import ReadBeside, hands_on
from fusiondoc.model.report import ProgramNode, Report, Unfused
from fusiondoc.operators import (
    CONTROL_FLOW,
    ELEMENTWISE,
    VIEWS,
    is_in_place,
    plain_name,
)
from fusiondoc.parsers.ir.types import TensorType, parse_type

_Node = tuple[DependencyGraph[ProgramNode], int]
"""A plan and a node index."""


class RowsInPlans:
    """The plan nodes of operators outside groups, and the nodes around them."""

    def __init__(self, report: Report) -> None:
        self._nodes: dict[int | None, list[_Node]] = {}
        """Row -> its nodes."""
        for program in report.programs:
            graph = graph_of(program)
            for index, node in enumerate(program.nodes):
                for row in node.rows:
                    self._nodes.setdefault(row, []).append((graph, index))
        self._groups = {group.id: group for group in report.groups}
        self._programs = {program.id: program for program in report.programs}
        self._read_beside: dict[int, ReadBeside] = {}
        """Identity of a plan, which its rows keep alive -> its reads of changed
        memory."""
        self._of_each_element: dict[str, bool] = {}
        """Group -> True if all its operators are element-wise."""

    def _nodes_of(self, row: Unfused) -> Sequence[_Node]:
        return self._nodes.get(row.index, ())

    def before_one_tensor(self, row: Unfused) -> bool:
        """True if the operator's result is taken only by element-wise groups that
        take this one tensor: any other tensor there would have to be permuted as
        well."""
        return all(self._into_such_a_group(*node) for node in self._nodes_of(row))

    def _into_such_a_group(
        self, graph: DependencyGraph[ProgramNode], node: int
    ) -> bool:
        takers = [graph.nodes[taker] for taker in graph.after[node]]
        group = None
        if len(takers) == 1:
            group = self._groups.get(takers[0].group or "")
        if group is None or len(group.inputs) != 1:
            return False
        if group.id not in self._of_each_element:
            many = any(one.op not in ELEMENTWISE for one in group.nodes)
            self._of_each_element[group.id] = not many
        return self._of_each_element[group.id]

    def behind_convolutions(self, row: Unfused) -> int:
        """Return how many of a row's operators take the result of a convolution
        that nothing else takes: freezing folds a batch norm there into it
        (torch/csrc/jit/passes/frozen_conv_folding.cpp)."""
        nodes = self._nodes_of(row)
        behind = sum(_after_its_own_convolution(*one) for one in nodes)
        if behind:
            return round(row.count * behind / len(nodes))
        return 0

    def is_promoted(self, row: Unfused) -> bool:
        """True if the operator's result would have another element type out of
        place."""
        return any(
            is_promoted(graph.nodes[node].inputs)
            for graph, node in self._nodes_of(row)
        )

    def may_come_from_outside(self, row: Unfused) -> bool:
        """True if a tensor that the operator takes may be an input of its plan, or
        share memory with one."""
        return any(_may_come_from_outside(*node) for node in self._nodes_of(row))

    def is_read_beside(self, row: Unfused) -> bool:
        """True if a later node reads the tensor that an operator changes in place
        by another name than its result.

        Edges connect nodes, not values: if a group with several results made the
        tensor, it counts as read.
        """
        return any(
            self._read_beside_in(graph).holds_of(node)
            for graph, node in self._nodes_of(row)
        )

    def is_read_of_one_result(self, row: Unfused) -> bool:
        """Like ``is_read_beside``, but only if the node that made the tensor has a
        single result: then it is certain that this tensor is read."""
        return any(
            self._read_beside_in(graph).holds_surely_of(node)
            and self._has_one_result(graph, node)
            for graph, node in self._nodes_of(row)
        )

    def _has_one_result(
        self, graph: DependencyGraph[ProgramNode], writer: int
    ) -> bool:
        maker = self._read_beside_in(graph).maker_of(writer)
        node = graph.nodes[maker] if maker is not None else None
        if node is None or node.kind not in ("operator", "group"):
            return False
        group = self._groups.get(node.group or "")
        return len(group.outputs if group is not None else node.outputs) == 1

    def comes_through_a_branch(self, row: Unfused) -> bool:
        """True if a branch or loop returns the tensor that the operator changes:
        the plan does not show whose memory that is."""
        for graph, node in self._nodes_of(row):
            maker = self._read_beside_in(graph).maker_of(node)
            if maker is not None and graph.nodes[maker].op in CONTROL_FLOW:
                return True
        return False

    def takes_reduction(
        self, row: Unfused, reductions: AbstractSet[str], known: bool
    ) -> bool:
        """True if the operator takes the result of one of these reductions from a
        group, beside another tensor.

        Args:
            known: the program's text shows that it takes such a result; else only
                the last operator of a group counts.
        """
        return any(
            self._takes_reduction(*node, reductions, known)
            for node in self._nodes_of(row)
        )

    def _takes_reduction(
        self,
        graph: DependencyGraph[ProgramNode],
        index: int,
        reductions: AbstractSet[str],
        known: bool,
    ) -> bool:
        node = graph.nodes[index]
        if node.first is None or len(node.inputs) < 2:
            return False
        maker = graph.nodes[node.first]
        if not known:
            ops = self._ops_of(maker)
            return (
                set(graph.after[node.first]) == {index}
                and len(ops) > 1
                and ops[-1] in reductions
            )
        region = self._programs.get(maker.program or "")
        makers = region.nodes if region is not None else (maker,)
        alone = any(one.op in reductions for one in makers)
        return alone or any(
            not reductions.isdisjoint(self._ops_of(one)[1:]) for one in makers
        )

    def follows_product(self, row: Unfused, products: AbstractSet[str]) -> bool:
        """True if the operator takes a result computed element-wise from one of
        these products of two matrices on the CPU."""
        return any(
            self._follows_product(*node, products) for node in self._nodes_of(row)
        )

    def _follows_product(
        self,
        graph: DependencyGraph[ProgramNode],
        index: int,
        products: AbstractSet[str],
    ) -> bool:
        todo, seen = list(graph.before[index]), {index}
        while todo:
            maker = todo.pop()
            if maker in seen:
                continue
            seen.add(maker)
            node = graph.nodes[maker]
            region = self._programs.get(node.program or "")
            if node.kind == "region" and region is not None:
                makers = region.nodes
            else:
                makers = (node,)
            if any(self._is_product_of_matrices(one, products) for one in makers):
                return True
            if all(one.kind == "group" or _is_elementwise(one) for one in makers):
                todo += graph.before[maker]
        return False

    def _is_product_of_matrices(
        self, node: ProgramNode, products: AbstractSet[str]
    ) -> bool:
        if not products.isdisjoint(self._ops_of(node)):
            return True
        made = []
        for one in map(parse_type, node.outputs):
            if isinstance(one, TensorType):
                made.append(one)
        of_two = all(one.sizes is None or len(one.sizes) == 2 for one in made)
        return (
            node.op in products
            and of_two
            and all(one.device in (None, "cpu") for one in made)
        )

    def _ops_of(self, node: ProgramNode) -> tuple[str, ...]:
        """Return the operators of a group; none for another node."""
        group = self._groups.get(node.group or "")
        if group is None:
            return ()
        return group.ops

    def _read_beside_in(self, graph: DependencyGraph[ProgramNode]) -> ReadBeside:
        if id(graph) not in self._read_beside:
            self._read_beside[id(graph)] = ReadBeside(graph)
        return self._read_beside[id(graph)]


def _is_elementwise(node: ProgramNode) -> bool:
    return f"aten::{plain_name(node.op)}" in ELEMENTWISE


def _may_come_from_outside(graph: DependencyGraph[ProgramNode], node: int) -> bool:
    """Like ``RowsInPlans.may_come_from_outside``, for one node:
    ``m.mul_(0.9).add_(x)`` adds to ``m``."""
    todo, seen = [node], {node}
    while todo:
        taker = todo.pop()
        if graph.nodes[taker].first is None or len(graph.before[taker]) < len(
            graph.nodes[taker].inputs
        ):
            return True
        for maker in graph.before[taker]:
            if maker not in seen and _may_share(graph.nodes[maker]):
                seen.add(maker)
                todo.append(maker)
    return False


def _may_share(node: ProgramNode) -> bool:
    """True if the result of a node may share memory with an input."""
    return node.op in VIEWS | CONTROL_FLOW or is_in_place(node.op) or hands_on(node)


_CONVOLUTIONS = frozenset(
    ["aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution"]
)
"""Convolutions that batch norms are folded into (``supportedConvNode``,
torch/csrc/jit/passes/frozen_conv_folding.cpp; observed with torch 2.13)."""


def _after_its_own_convolution(
    graph: DependencyGraph[ProgramNode], node: int
) -> bool:
    return any(
        graph.nodes[maker].op in _CONVOLUTIONS and len(graph.after[maker]) == 1
        for maker in graph.before[node]
    )
