"""What one operator keeps out of groups: the operators that would be in a group if it could be in one too, or
if a branch or loop went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.diagnosis.surroundings import NOTHING_TO_GAIN
from fusiondoc.fusers import FUSERS, takes_seldom
from fusiondoc.graph import Graph, graph_of_flow
from fusiondoc.graph.would_fuse import Limits, would_fuse
from fusiondoc.model.codes import CODES, Cause
from fusiondoc.model.reasons import Side
from fusiondoc.operators import KEPT_OUT, WITH_FORMULA
from fusiondoc.parsers.jit.flow import GROUP, OPERATOR, Flow, FlowNode

FOR_ITSELF = frozenset(code for code, known in CODES.items() if known.cause is Cause.OPERATOR)
"""Reasons that rule an operator out for itself: it can be a barrier for others."""

NEVER_LOOKED_AT = frozenset(code for code, known in CODES.items() if known.cause is Cause.SETTING)
"""Reasons that no change of a neighbour would take away."""

_SIDES: tuple[Side, Side] = ("before", "after")

_MOST_BETWEEN = 64
"""Nodes of a plan between neighbours, which may lie on another way from one to the other; of neighbours
farther apart such a way is not looked for."""


def kept_out(flow: Flow, fuser: str, reasons: Mapping[int, str]) -> dict[int, AbstractSet[int]]:
    """What each operator keeps out of groups.

    Args:
        reasons: codes of the operators outside groups, by node index.

    Returns:
        Node index of a barrier -> the node indexes of what it keeps out; only those that keep something out.
    """
    plan = _Plan(graph_of_flow(flow), fuser, reasons)
    kept: dict[int, set[int]] = {}
    for index in reasons:
        if plan.could_fuse(index):
            for barrier in plan.barriers_of(index):
                kept.setdefault(barrier, set()).add(index)
    return dict(kept)


class _Plan:
    """A plan whose operators outside groups have reasons."""

    def __init__(self, graph: Graph[FlowNode], fuser: str, reasons: Mapping[int, str]) -> None:
        self._graph = graph
        self._nodes = graph.nodes
        self._fuser = fuser
        self._reasons = reasons

    def could_fuse(self, index: int) -> bool:
        """Whether an operator outside groups could be in one, for all that is known of it."""
        node, code = self._nodes[index], self._reasons.get(index)
        if code is None or node.kind != OPERATOR or code in FOR_ITSELF or code in NEVER_LOOKED_AT:
            return False
        if node.op in NOTHING_TO_GAIN or takes_seldom(node.op, self._fuser):
            return False
        return node.op in FUSERS[self._fuser].takes and not self._has_no_formula(index)

    def _has_no_formula(self, index: int) -> bool:
        return self._reasons.get(index) == "FD231" and self._nodes[index].op not in WITH_FORMULA

    def _joins(self, index: int) -> bool:
        """Whether it is a group, or an operator that could be in one."""
        return self._nodes[index].kind == GROUP or self.could_fuse(index)

    def _is_barrier(self, index: int) -> bool:
        code = self._reasons.get(index)
        return code in FOR_ITSELF or self._has_no_formula(index)

    def barriers_of(self, index: int) -> Iterator[int]:
        """What keeps an operator out: each neighbour, views left aside, with which it would be in a group if
        that could be in one; the branch or loop without which it would be in a group with a neighbour."""
        node = self._nodes[index]
        near = self._near(index)
        here = [other for other in near if self._nodes[other].block == node.block]
        barriers = [other for other in here if self._is_barrier(other)]
        elsewhere = [other for other in near if other not in here and self._joins(other)]
        # Regions of few operators are given up, also where two stand next to each other.
        if (barriers or elsewhere) and self._reasons[index] != "FD231":
            partners = (other for other in here if self._joins(other))
            if any(self._would_join(index, other, near[other]) for other in partners):
                return
        for other in barriers:
            if self._would_join(index, other, near[other]):
                yield other
        for other in elsewhere:
            between = _blocks_between(node, self._nodes[other])
            if between[0] in self._reasons and self._would_join(index, other, near[other], between):
                yield between[0]

    def _near(self, index: int) -> Mapping[int, Sequence[int]]:
        """Its neighbours on both sides, with the views on the way to each, which count as transparent. A
        differentiable graph ends at some views."""
        regions = self._reasons[index] == "FD231"

        def ends_region(other: int) -> bool:
            return regions and self._nodes[other].op in KEPT_OUT

        def sees_through(other: int) -> bool:
            transparent = self._nodes[other].op in NOTHING_TO_GAIN and self._reasons.get(other) != "FD231"
            return transparent and not ends_region(other)

        found: dict[int, Sequence[int]] = {}
        for side in _SIDES:
            reached = self._graph.reach([index], side, sees_through)
            found.update((other, way) for other, way in reached.ends if not ends_region(other))
        return dict(sorted(found.items()))

    def _would_join(self, index: int, other: int, views: Sequence[int], without: Sequence[int] = ()) -> bool:
        """Whether two operators would be in one group if they and the views between them could be in any.

        Args:
            without: branches and loops that go: what stands in them stands in the block around them.
        """
        free = (index, other, *views)
        first, last = min(free), max(free)
        near = range(first, last + 1) if last - first <= _MOST_BETWEEN else free
        blocks = (block for node in near for block in self._nodes[node].block)
        nodes = sorted({*near, *blocks})
        part = self._graph.part(nodes)
        gone = {at for at, node in enumerate(nodes) if node in without}
        limits = Limits([_around(block, part, gone) for block in part.inside], skipped=gone)
        both = {nodes.index(index), nodes.index(other)}
        groups = would_fuse(part, [node in free for node in nodes], limits)
        return any(both.issubset(members) for members in groups)


def _around(block: int | None, graph: Graph[FlowNode], gone: AbstractSet[int]) -> int | None:
    """The innermost block that does not go, of a block and those around it."""
    while block is not None and block in gone:
        block = graph.inside[block]
    return block


def _blocks_between(node: FlowNode, other: FlowNode) -> Sequence[int]:
    """The branches and loops that one of two nodes stands in, and the other does not."""
    every = (*node.block, *other.block)
    return [block for block in every if block not in node.block or block not in other.block]
