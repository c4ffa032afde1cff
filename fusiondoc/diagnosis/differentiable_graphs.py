"""Why torch made no differentiable graph for an operator, or dissolved it again:
where gradients are recorded, only operators in such a graph are fused.

Sources, 1.12 to 2.13: torch/csrc/jit/passes/create_autodiff_subgraphs.cpp (regions
grow over data edges in one block and need two operators,
autodiffSubgraphNodeThreshold; a region takes in the producer of one of its tensors,
if the producer can be moved to it: ``AliasDb::moveBeforeTopologicallyValid`` of
torch/csrc/jit/ir/alias_analysis.cpp; the producer of an output that shares memory
with another output is moved out again, ``unfuseAliasedOutputs``),
torch/csrc/jit/runtime/autodiff.cpp (isDifferentiable),
torch/csrc/jit/passes/inline_autodiff_subgraphs.cpp (a region of fewer than five
nodes is dissolved) and torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp
(``guardDifferentiableGraph``: the profiled types are set at the values that enter a
region, and the region is dissolved if one of them has none). So a value that enters
a dissolved region and is a bare ``Tensor`` in the plan is the cause. Tried on 2.13
with torch._C._jit_pass_create_autodiff_subgraphs.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fusiondoc.diagnosis.argument_kinds import kinds_of
from fusiondoc.diagnosis.operator_in_plan import (
    OperatorInPlan,
    at,
    container_of,
    neighbours,
)
from fusiondoc.graph import graph_of_flow
from fusiondoc.graph.detours import Detours, once_a_flow
from fusiondoc.model.reasons import (
    AloneInRegion,
    Detail,
    DissolvedRegion,
    FormulaGap,
    OutOfRegion,
    RegionDetour,
    RegionEnd,
    Side,
    SmallRegion,
)
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.operators import (
    GRADIENTS,
    KEPT_OUT,
    LIBRARY,
    MAKERS,
    WITH_FORMULA,
    is_in_place,
    of,
)
from fusiondoc.operators.kinds import OperatorKind
from fusiondoc.parsers.jit.flow import (
    CONTROL,
    OPERATOR,
    REGION,
    Flow,
    FlowNode,
    Operand,
)

_OF_MODULE = ("", "prim::GetAttr")
"""Makers of tensors of which torch cannot tell whether they share memory:
arguments, attributes."""

_SAME_MEMORY = WITH_FORMULA & of(OperatorKind.VIEW | OperatorKind.HANDS_ON)
"""Operators with a gradient formula whose result may share memory with their
input."""


class _Region:
    """A differentiable graph as torch would make it."""

    def __init__(self, nodes: list[FlowNode], flow: Flow) -> None:
        self.nodes = nodes
        """The nodes, by index."""
        indexes = {node.index for node in nodes}
        self.whole = all(
            indexes.isdisjoint(shortened) for shortened in flow.shortened
        )
        """True if all neighbours of its nodes were looked at."""
        operands: set[Operand] = set()
        for node in nodes:
            operands.update(node.operands)
        self.size = len(nodes) + sum(
            operand.value is not None for operand in operands
        )
        """The number of its nodes, constants included."""
        self._dissolved: DissolvedRegion | None = None

    def dissolved(self, flow: Flow, recorded: bool) -> DissolvedRegion:
        """Return why the executor dissolved it, if it has enough nodes."""
        if self._dissolved is None:
            self._dissolved = _dissolved(flow, self.nodes, recorded)
        if self._dissolved.recorded != recorded:
            return replace(self._dissolved, recorded=recorded)
        return self._dissolved


class _Regions:
    """The regions of one flow: connected operators with gradient formulas, each
    operator in one region. They are computed once."""

    def __init__(self, flow: Flow) -> None:
        self._nodes = flow.nodes
        writers = []
        for node in flow.nodes:
            if is_in_place(node.op) and _writes_of_module(node):
                writers.append(node.index)
        self._writers = writers
        """Indexes of the nodes that change an attribute or argument in place."""
        self._of: dict[int, _Region] = {}
        self._fitting = [_fits(node) for node in flow.nodes]
        self._joinable = []
        for node in flow.nodes:
            self._joinable.append(
                node.kind == OPERATOR and no_formula(node) is None
            )
        self._detours = Detours(graph_of_flow(flow), _steps)
        for start in flow.nodes:
            if self._fitting[start.index] and start.index not in self._of:
                members = self._connected(start)
                region = _Region(sorted(members, key=lambda node: node.index), flow)
                self._of.update((node.index, region) for node in members)

    def _connected(self, start: FlowNode) -> list[FlowNode]:
        """Return the operators that can be in one region with ``start``, each a
        neighbour of another of them."""
        members = [start]
        seen = {start.index}
        for node in members:
            for first, last in self._pairs(node):
                near = last if first is node else first
                if (
                    near.index not in seen
                    and self._between(first, last, node) is None
                ):
                    seen.add(near.index)
                    members.append(near)
        return members

    def _pairs(self, node: FlowNode) -> Iterator[tuple[FlowNode, FlowNode]]:
        """Yield the operator with each neighbour that could be in one region with
        it, each pair in node order."""
        for near in neighbours(self._nodes, node):
            if self._fitting[near.index] and near.block == node.block:
                if node.index < near.index:
                    first, last = node, near
                else:
                    first, last = near, node
                if not _through_a_list(first, last):
                    yield first, last

    @property
    def in_part(self) -> bool:
        """True if not all detours between operators were followed: regions may then
        be too large."""
        return self._detours.spent

    def of(self, node: FlowNode, flow: Flow) -> _Region:
        """Return the region of an operator that has a gradient formula."""
        return self._of.get(node.index) or _Region([node], flow)

    def apart(self, node: FlowNode) -> RegionDetour | None:
        """Return why the operator and a neighbour are not in one region."""
        for first, last in self._pairs(node):
            between = self._between(first, last, node)
            if between is not None:
                return between
        return None

    def _between(
        self, first: FlowNode, last: FlowNode, this: FlowNode
    ) -> RegionDetour | None:
        """Return why the first operator cannot be moved to the last, which takes
        its result.

        Args:
            this: the one of the two operators that the reason is for.
        """
        nodes = self._nodes
        ends = (
            None if first is this else first.op,
            None if last is this else last.op,
        )
        step = self._detours.between(
            first,
            last,
            _steps(first),
            lambda way: not self._joinable[way.index] or way.block != first.block,
        )
        if step is not None:
            return RegionDetour(
                at(nodes[step]), "result" if step in first.after else "size", *ends
            )
        if not (_of_module(first) and _of_module(last)):
            return None
        for index in range(
            bisect_right(self._writers, first.index),
            bisect_left(self._writers, last.index),
        ):
            writer = nodes[self._writers[index]]
            if writer.block[: len(first.block)] == first.block:
                return RegionDetour(at(writer), "write", *ends)
        return None


_regions_of = once_a_flow(_Regions)


def _fits(node: FlowNode) -> bool:
    """True if the node can be in a differentiable graph."""
    return (
        node.kind == OPERATOR and node.op not in MAKERS and no_formula(node) is None
    )


def _through_a_list(first: FlowNode, last: FlowNode) -> bool:
    """True if the tensor goes from one node to the other only in a list:
    differentiable graphs hold no lists."""
    if any(text.startswith("Tensor") and "[]" in text for text in first.outputs):
        return True
    lists = []
    for one in last.operands:
        if one.type.startswith("Tensor") and "[]" in one.type:
            lists.append(one)
    return bool(lists) and not any(
        one.by == first.index for one in last.operands if one not in lists
    )


def _of_module(node: FlowNode) -> bool:
    """True if it reads a tensor that may share memory with every attribute and
    argument."""
    return any(
        (
            one.maker in _OF_MODULE
            and (one.type.startswith("Tensor") or "device=" in one.type)
        )
        or (one.type.startswith("Tensor") and "[]" in one.type)
        for one in node.operands
    )


def _writes_of_module(node: FlowNode) -> bool:
    return bool(node.operands) and node.operands[0].maker in _OF_MODULE


def _steps(node: FlowNode) -> tuple[int, ...]:
    """Return the nodes that take its tensors, or their sizes."""
    return (*node.after, *node.sizes)


def _entering(nodes: Sequence[FlowNode]) -> Iterator[tuple[FlowNode, Operand]]:
    """Yield the tensors that enter a region of these nodes, with the operators that
    read them."""
    inside = {node.index for node in nodes}
    for node in nodes:
        for one in node.operands:
            is_tensor = one.type == "Tensor" or "device=" in one.type
            if one.value is None and is_tensor and one.by not in inside:
                yield node, one


def _dissolved(
    flow: Flow, nodes: Sequence[FlowNode], recorded: bool
) -> DissolvedRegion:
    size = len(nodes)
    entering = list(_entering(nodes))
    bare = []
    for node, one in entering:
        if one.type == "Tensor":
            bare.append((node, one))
    if bare and len(bare) == len(entering):
        return DissolvedRegion(recorded, size, "nothing_profiled")
    for node, one in bare:
        maker = flow.nodes[one.by] if one.by is not None else None
        if maker is not None and maker.kind == REGION:
            return DissolvedRegion(recorded, size, "lost_at_border", at(node))
        return DissolvedRegion(
            recorded, size, "not_profiled", at(node), at(maker) if maker else None
        )
    same = next((one for one in nodes if one.op in _SAME_MEMORY), None)
    if same is not None:
        return DissolvedRegion(recorded, size, "shares_memory", at(same))
    return DissolvedRegion(recorded, size, "not_shown")


_FEWEST_NODES = 5
"""autodiffSubgraphInlineThreshold
(torch/csrc/jit/runtime/graph_executor_impl.h)."""


def no_formula(node: FlowNode) -> FormulaGap | None:
    """Return why torch's autodiff keeps an operator out of differentiable graphs,
    or None."""
    if node.kind == CONTROL:
        return FormulaGap("control_flow")
    if node.kind != OPERATOR or node.op == "prim::GetAttr":
        return None
    if is_in_place(node.op):
        return FormulaGap("in_place")
    if node.op in KEPT_OUT:
        return FormulaGap("view")
    if node.op not in WITH_FORMULA:
        return FormulaGap("no_formula")
    gradient = GRADIENTS[node.op]
    if gradient.not_where is not None and _has_constant(node, *gradient.not_where):
        return FormulaGap("no_formula")
    if gradient.without is not None and not re.fullmatch(
        gradient.arguments, kinds_of(node)
    ):
        return FormulaGap("overload", gradient.without)
    return None


def _has_constant(node: FlowNode, argument: int, value: str) -> bool:
    return len(node.operands) > argument and node.operands[argument].value == value


def cuts_region(operator: OperatorInPlan) -> Reason | None:
    """FD231: the operator is between two differentiable graphs and is the reason
    why they are two.

    This rule comes before the one for views: a view that torch keeps out costs
    nothing itself, but separates the operators around it.
    """
    flow, node = operator.flow, operator.node
    if (
        not flow.regions
        or node.kind != OPERATOR
        or operator.loose.op == "prim::GetAttr"
    ):
        return None
    gap = no_formula(node)
    sides = (node.before, node.after)
    if gap is not None and all(
        any(flow.nodes[i].kind == REGION for i in side) for side in sides
    ):
        return Reason.of("FD231", OutOfRegion(True, gap, cuts=True))
    return None


def gradient(operator: OperatorInPlan) -> Reason | None:
    """FD231: where gradients are recorded, only operators in a differentiable graph
    are fused (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp,
    runProfilingOptimizations)."""
    flow, node = operator.flow, operator.node
    if not (flow.regions or operator.unseen or node.requires_grad):
        return None
    recorded = flow.regions or operator.gradients or node.requires_grad
    gap = no_formula(node)
    if gap is not None:
        return Reason.of("FD231", OutOfRegion(recorded, gap))
    regions = _regions_of(flow)
    region = regions.of(node, flow)
    detail = _of_region(operator, regions, region, recorded)
    whole = region.whole and not regions.in_part
    return Reason.of("FD231", detail if whole else replace(detail, in_part=True))


_OF_REGIONS = (OutOfRegion, AloneInRegion, SmallRegion, DissolvedRegion)


def gradients_recorded(detail: Detail | None) -> bool:
    """True if the reason is one of a run that certainly records gradients."""
    return isinstance(detail, _OF_REGIONS) and detail.recorded


def no_pass_looked(detail: Detail | None) -> bool:
    """True if nothing more is known than that no fusion pass looked at the
    operator's graph."""
    return isinstance(detail, _OF_REGIONS) and not detail.recorded


def _of_region(
    operator: OperatorInPlan, regions: _Regions, region: _Region, recorded: bool
) -> AloneInRegion | SmallRegion | DissolvedRegion:
    """Return why the plan lacks the differentiable graph that the operator would be
    in."""
    if len(region.nodes) == 1:
        detour = regions.apart(operator.node)
        ends = _region_ends(operator) if detour is None else ()
        container = None
        if detour is None and not ends:
            container = container_of(operator.node)
        return AloneInRegion(recorded, ends, detour, container)
    if region.size < _FEWEST_NODES:
        return SmallRegion(recorded, region.size, _FEWEST_NODES)
    return region.dissolved(operator.flow, recorded)


def _region_ends(operator: OperatorInPlan) -> tuple[RegionEnd, ...]:
    """Return up to two operators that end the region before and after this
    operator, the easiest to change first."""
    sides: tuple[Side, Side] = ("before", "after")
    ranks: dict[RegionEnd, int] = {}
    for side in sides:
        for near in sorted(
            operator.node.before if side == "before" else operator.node.after
        ):
            node = operator.flow.nodes[near]
            gap = no_formula(node)
            if gap is None or node.op in MAKERS:
                continue
            end = RegionEnd(at(node), side, gap)
            if is_in_place(node.op):
                ranks[end] = 0
            elif node.op in LIBRARY:
                ranks[end] = 2
            else:
                ranks[end] = 1
    return tuple(sorted(ranks, key=lambda end: ranks[end])[:2])
