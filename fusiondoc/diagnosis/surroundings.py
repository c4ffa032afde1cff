"""An operator's neighbours in its plan, and when they keep it out of every group
although a fuser could take it: there is nothing to fuse with, or it is out of
reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fusiondoc.diagnosis.of_fusers import rules_of
from fusiondoc.diagnosis.operator_in_plan import (
    OperatorInPlan,
    Reach,
    at,
    by_version,
    container_of,
    graph_of,
)
from fusiondoc.graph.detours import Barriers, Detours, once_a_flow
from fusiondoc.model.reasons import (
    Alone,
    Barrier,
    BehindViews,
    DecidesBetween,
    Detour,
    EndedInPlace,
    NewerNeighbour,
    OperatorAt,
    OtherBlock,
    Side,
    SideEffect,
    WhyBarrier,
    WriteBetween,
)
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.operators import (
    LIBRARY,
    VIEWS,
    WITH_FORMULA,
    is_in_place,
    plain_name,
)
from fusiondoc.parsers.jit.flow import CONTROL, REGION, Flow, FlowNode


class _Obstacle(NamedTuple):
    """A neighbour, through views, that is not fused."""

    node: FlowNode
    side: Side
    behind: FlowNode | None
    """The nearest node behind it, up to three operators away, that could be
    fused."""


_SIDES: tuple[Side, Side] = ("before", "after")


def read_before(operator: OperatorInPlan) -> Reason | None:
    """FD227: control flow reads the operator's result before the operator that it
    would fuse with, so that it cannot be moved there. The shape checks in torch.nn
    are such control flow."""
    node, nodes = operator.node, operator.flow.nodes
    if not node.decides:
        return None
    partners = []
    for i in node.after:
        if nodes[i].block == node.block and operator.joinable(nodes[i]):
            partners.append(i)
    nearest = min(partners, default=-1)
    for control in sorted(node.decides):
        if control < nearest and nodes[control].block == node.block:
            flow_control = nodes[control]
            detail = DecidesBetween(
                at(flow_control), flow_control.condition, nodes[nearest].op
            )
            return Reason.of("FD227", detail)
    return None


def _not_in(node: FlowNode, other: FlowNode) -> tuple[int, ...]:
    """Return the blocks that contain the first node and not the other, outermost
    first."""
    return tuple(block for block in node.block if block not in other.block)


def surroundings(operator: OperatorInPlan) -> Reason | None:
    """FD225, FD227 and FD228: there is nothing to fuse with, or it is out of
    reach."""
    reached = {side: operator.reach(side) for side in _SIDES}
    partners: list[tuple[FlowNode, tuple[FlowNode, ...]]] = []
    for side in _SIDES:
        partners.extend(reached[side].partners)
    near = []
    for partner, views in partners:
        if not views and partner.block == operator.node.block:
            near.append(partner)
    whole = all(reach.whole for reach in reached.values())
    if near:
        return _circle(operator, near) or _depends_on_version(operator, near, whole)
    code, detail = _apart(operator, reached, partners)
    return Reason.of(code, detail if whole else replace(detail, in_part=True))


_Reached = Mapping[Side, Reach]


def _apart(
    operator: OperatorInPlan,
    reached: _Reached,
    partners: list[tuple[FlowNode, tuple[FlowNode, ...]]],
) -> tuple[str, BehindViews | OtherBlock | Barrier | Alone | EndedInPlace]:
    """Return code and detail if the nodes to fuse with are behind views, in another
    block or behind barriers, or if there are none."""
    node = operator.node
    for partner, views in partners:
        if partner.block == node.block:
            return "FD227", _behind_views(operator, partner, views)
    barriers = []
    for side in _SIDES:
        for found in reached[side].barriers:
            barriers.append(_Obstacle(found, side, operator.behind(found, side)))
    if partners:
        return "FD228", _other_block(operator, partners[0][0])
    if node.block and any(barrier.node.kind == CONTROL for barrier in barriers):
        return "FD228", _other_block(operator, None)
    blocking = []
    for b in barriers:
        if b.behind is not None:
            blocking.append(b)
    blocking.sort(key=lambda b: _order(b, operator))
    if blocking:
        return "FD227", _barrier(blocking[0], operator)
    return "FD225", _ended_in_place(operator) or _alone(barriers, operator)


def _behind_views(
    operator: OperatorInPlan, partner: FlowNode, views: Sequence[FlowNode]
) -> BehindViews:
    """Return the detail if the node to fuse with is behind views."""
    newer = []
    for rule in (by_version(operator, view.op) for view in views):
        if rule is not None:
            newer.append(rule)
    shown = tuple(at(view) for view in views[:2])
    return BehindViews(shown, partner.op, newer[0] if newer else None)


def _other_block(operator: OperatorInPlan, partner: FlowNode | None) -> OtherBlock:
    """Return the detail if the nodes to fuse with are in another block; ``partner``
    is None if none is known."""
    node = operator.node
    blocks = node.block
    if partner is not None:
        blocks = (*_not_in(partner, node), *_not_in(node, partner))
    control = operator.flow.nodes[blocks[-1]] if blocks else None
    return OtherBlock(
        partner.op if partner is not None else None,
        at(control) if control is not None else None,
    )


def _ended_in_place(operator: OperatorInPlan) -> EndedInPlace | None:
    """Return the in-place operator after the differentiable graph that takes the
    operator's result, if there is one. Its out-of-place version would be in that
    graph (in-place operators have no formula: isDifferentiable of
    torch/csrc/jit/runtime/autodiff.cpp, 1.12 to 2.13)."""
    end = operator.region_end
    if end is None or not is_in_place(end.op):
        return None
    plain = f"aten::{plain_name(end.op)}"
    if plain not in WITH_FORMULA or not operator.takes(plain):
        return None
    return EndedInPlace(at(end))


_crossings_of = once_a_flow(Barriers)


class _DetoursOfFlow:
    """The detours of a flow through nodes that cannot be fused, cached as long as
    the fuser, torch and refusals are the same."""

    def __init__(self, flow: Flow) -> None:
        self._graph = graph_of(flow)
        self._known: tuple[object, ...] = ()
        self._detours: Detours | None = None

    def of(self, operator: OperatorInPlan) -> Detours:
        known = self._known
        if (
            self._detours is None
            or known[0] is not operator.refused
            or known[1:] != (operator.fuser, operator.torch)
        ):
            self._known = operator.refused, operator.fuser, operator.torch
            self._detours = Detours(self._graph, lambda node: node.after)
        return self._detours


_detours_of = once_a_flow(_DetoursOfFlow)


def _circle(operator: OperatorInPlan, partners: list[FlowNode]) -> Reason | None:
    """FD227: a detour leads from one operator to the other through a node that is
    not fused. If they were fused, the group would wait for that node, and the node
    for the group (AliasDb::moveBeforeTopologicallyValid, which every fusion pass
    calls)."""
    node, nodes = operator.node, operator.flow.nodes
    detours = _detours_of(operator.flow).of(operator)
    for partner in partners:
        if partner.index in node.after:
            first, last = node, partner
        else:
            first, last = partner, node
        ends = (
            None if first is node else first.op,
            None if last is node else last.op,
        )
        read = None
        if first is node:
            read = operator.flow.read_by(first.index, last.index)
        if read is not None:
            return Reason.of(
                "FD227",
                Detour("property", *ends, property=read.what, taker=read.op),
            )
        if last.index in first.numbers:
            return Reason.of("FD227", Detour("number", *ends))
        starts = (*first.after, *first.numbers)
        between = detours.between(
            first, last, starts, lambda one: not operator.joinable(one)
        )
        if between is not None:
            of_size = between not in first.after
            return Reason.of(
                "FD227", Detour("takes", *ends, at(nodes[between]), of_size)
            )
        between = detours.through(
            first, last, starts, lambda one: not operator.joinable(one)
        )
        if between is not None:
            return Reason.of(
                "FD227", Detour("on_the_way", *ends, at(nodes[between]))
            )
    crossings = _crossings_of(operator.flow)
    for partner in partners:
        low, high = sorted((node.index, partner.index))
        stop = crossings.stop(low, high, node.block)
        if stop is not None:
            effect = operator.flow.stops[stop]
            return Reason.of(
                "FD227",
                SideEffect(OperatorAt(effect.kind, effect.source), partner.op),
            )
        crossed = crossings.writer(low, high, node.block)
        if crossed is not None:
            return Reason.of("FD227", WriteBetween(at(nodes[crossed]), partner.op))
    return None


def _depends_on_version(
    operator: OperatorInPlan, near: list[FlowNode], whole: bool
) -> Reason | None:
    """FD233 and FD225: the operator, or every node that it could be fused with (all
    are known if ``whole``), has a rule only in versions later than the one that may
    be at work."""
    own = by_version(operator, operator.node.op)
    if own is not None:
        return Reason.of("FD233", own)
    later = [by_version(operator, node.op) for node in near]
    if whole and later[0] is not None and all(later):
        return Reason.of("FD225", NewerNeighbour(near[0].op, later[0]))
    return None


def _alone(barriers: list[_Obstacle], operator: OperatorInPlan) -> Alone:
    """Return the detail that names all neighbours."""
    before = tuple(sorted({b.node.op for b in barriers if b.side == "before"}))
    after = tuple(sorted({b.node.op for b in barriers if b.side == "after"}))
    return Alone(
        before, after, None if before or after else container_of(operator.node)
    )


def _order(barrier: _Obstacle, operator: OperatorInPlan) -> tuple[int, bool]:
    """Return the sort key: the easiest to change first, and then a barrier that is
    alone between the two."""
    near = barrier.behind in operator.neighbours(barrier.node)
    return _fixed(barrier.node, operator), not near


def _fixed(node: FlowNode, operator: OperatorInPlan) -> int:
    """Return how hard a barrier is to change: an in-place operator is easiest, then
    arguments, views and a branch, and a library call is hardest."""
    if is_in_place(node.op):
        return 0
    if _refused_here(node, operator):
        return 1
    if node.op in VIEWS:
        return 2
    if node.kind == CONTROL:
        return 3
    if node.op in LIBRARY:
        return 5
    return 4


def _refused_here(node: FlowNode, operator: OperatorInPlan) -> bool:
    """True if the fuser has a rule for an operator and refuses it here."""
    if node.index not in operator.refused:
        return False
    return node.op in operator.catalogue or node.op in operator.catalogue_of_views


def _barrier(obstacle: _Obstacle, operator: OperatorInPlan) -> Barrier:
    node, behind = obstacle.node, obstacle.behind
    assert behind is not None
    why = _why(node, operator)
    refusal = None
    if why == "refused":
        refusal = rules_of(operator.fuser).refusal(node, operator.torch)
    return Barrier(
        at(node),
        why,
        operator.fuser,
        behind.op,
        alone=behind in operator.neighbours(node),
        condition=node.condition if why == "control_flow" else None,
        refusal=refusal,
    )


def _why(node: FlowNode, operator: OperatorInPlan) -> WhyBarrier:
    """Return why a barrier is in no group."""
    if is_in_place(node.op):
        return "in_place"
    if node.kind == CONTROL:
        return "control_flow"
    if node.kind == REGION:
        return "region"
    if _refused_here(node, operator):
        return "refused"
    if node.op in VIEWS:
        return "view"
    if node.op in operator.catalogue:
        return "some_cases"
    return "no_rule"
