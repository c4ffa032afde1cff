"""The operators that an operator keeps out of groups: they would be in a group if
it could be in one too, or if a branch or loop were removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.diagnosis.operator_in_plan import NOTHING_TO_GAIN
from fusiondoc.fusers import FUSERS, takes_seldom
from fusiondoc.graph import DependencyGraph, graph_of_flow
from fusiondoc.graph.would_fuse import Limits, would_fuse
from fusiondoc.model.code_kinds import Cause
from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons import Side
from fusiondoc.operators import KEPT_OUT, WITH_FORMULA
from fusiondoc.parsers.jit.flow import GROUP, OPERATOR, Flow, FlowNode

FOR_ITSELF = frozenset(
    code for code, known in CODES.items() if known.cause is Cause.OPERATOR
)
"""Reasons that lie in the operator itself: it can be a barrier for others."""

NEVER_LOOKED_AT = frozenset(
    code for code, known in CODES.items() if known.cause is Cause.SETTING
)
"""Reasons that no change of a neighbour would remove."""

_SIDES: tuple[Side, Side] = ("before", "after")

_MOST_BETWEEN = 64
"""The most nodes of a plan between two neighbours for which detours from one to the
other are looked for."""


def kept_out(
    flow: Flow, fuser: str, reasons: Mapping[int, str]
) -> dict[int, AbstractSet[int]]:
    """Return the operators that each operator keeps out of groups.

    Args:
        reasons: codes of the operators outside groups, by node index.

    Returns: Index of a barrier -> the indexes of the nodes that it keeps out; only
    barriers that keep some out.
    """
    plan = _Plan(graph_of_flow(flow), fuser, reasons)
    kept: dict[int, set[int]] = {}
    for index in reasons:
        if plan.could_fuse(index):
            for barrier in plan.barriers_of(index):
                kept.setdefault(barrier, set()).add(index)
    return dict(kept)


def is_lost_outside(
    op: str,
    code: str | None,
    fuser: str | None,
    counts: AbstractSet[str] = frozenset(),
) -> bool:
    """True if it is a loss that an operator that the fuser takes is in no group,
    and a change of the nodes around it could remove the reason.

    Args:
        code: of the reason.
        counts: operators that count as a loss although they compute nothing.
    """
    if code in FOR_ITSELF or code in NEVER_LOOKED_AT:
        return False
    if op in counts:
        return True
    return not (
        op in NOTHING_TO_GAIN or takes_seldom(op, fuser) or _lacks_formula(op, code)
    )


def _lacks_formula(op: str, code: str | None) -> bool:
    """True if it is outside differentiable graphs because it has no gradient
    formula."""
    return code == "FD231" and op not in WITH_FORMULA


class _Plan:
    """A plan, with the reasons of its operators outside groups."""

    def __init__(
        self,
        graph: DependencyGraph[FlowNode],
        fuser: str,
        reasons: Mapping[int, str],
    ) -> None:
        self._graph = graph
        self._nodes = graph.nodes
        self._fuser = fuser
        self._reasons = reasons

    def could_fuse(self, index: int) -> bool:
        """True if an operator outside groups could be in one, as far as known."""
        node, code = self._nodes[index], self._reasons.get(index)
        if (
            node.kind != OPERATOR
            or node.op not in FUSERS[self._fuser].operators.takes
        ):
            return False
        return code is not None and is_lost_outside(node.op, code, self._fuser)

    def _joins(self, index: int) -> bool:
        """True if it is a group, or an operator that could be in one."""
        return self._nodes[index].kind == GROUP or self.could_fuse(index)

    def _is_barrier(self, index: int) -> bool:
        code = self._reasons.get(index)
        return code in FOR_ITSELF or _lacks_formula(self._nodes[index].op, code)

    def barriers_of(self, index: int) -> Iterator[int]:
        """Yield the nodes that keep an operator out: each neighbour (looking
        through views) that it would share a group with if that neighbour could be
        in one; and each branch or loop without which it would share a group with a
        neighbour."""
        block = self._nodes[index].block
        barriers: dict[int, Sequence[int]] = {}
        inside: dict[int, Sequence[int]] = {}
        elsewhere: dict[int, Sequence[int]] = {}
        for other, views in self._near(index).items():
            here = self._nodes[other].block == block
            if here and self._is_barrier(other):
                barriers[other] = views
            if self._joins(other):
                (inside if here else elsewhere)[other] = views
        if not barriers and not elsewhere:
            return
        # Regions of few operators are dissolved, even where two operators are
        # neighbours.
        if self._reasons[index] != "FD231":
            joins = (
                self._would_join(index, other, views)
                for other, views in inside.items()
            )
            if any(joins):
                return
        for other, views in barriers.items():
            if self._would_join(index, other, views):
                yield other
        yield from self._branches_of(index, elsewhere)

    def _branches_of(
        self, index: int, elsewhere: Mapping[int, Sequence[int]]
    ) -> Iterator[int]:
        """Yield the branches and loops without which an operator would be in a
        group with a neighbour in another block.

        Args:
            elsewhere: these neighbours, with the views on the way to each.
        """
        for other, views in elsewhere.items():
            between = _blocks_between(self._nodes[index], self._nodes[other])
            if between[0] in self._reasons and self._would_join(
                index, other, views, between
            ):
                yield between[0]

    def _near(self, index: int) -> Mapping[int, Sequence[int]]:
        """Return its neighbours on both sides, with the views on the way to each;
        views count as transparent, except those at which a differentiable graph
        ends."""
        regions = self._reasons[index] == "FD231"

        def ends_region(other: int) -> bool:
            return regions and self._nodes[other].op in KEPT_OUT

        def sees_through(other: int) -> bool:
            transparent = (
                self._nodes[other].op in NOTHING_TO_GAIN
                and self._reasons.get(other) != "FD231"
            )
            return transparent and not ends_region(other)

        found: dict[int, Sequence[int]] = {}
        for side in _SIDES:
            reached = self._graph.reach([index], side, sees_through)
            for other, way in reached.ends:
                if not ends_region(other):
                    found[other] = way
        return dict(sorted(found.items()))

    def _would_join(
        self,
        index: int,
        other: int,
        views: Sequence[int],
        without: Sequence[int] = (),
    ) -> bool:
        """True if two operators would be in one group if they and the views between
        them could be in any.

        Args:
            without: branches and loops that are removed: the nodes in them count as
                nodes of the block around them.
        """
        free = (index, other, *views)
        first, last = min(free), max(free)
        near = range(first, last + 1) if last - first <= _MOST_BETWEEN else free
        blocks: list[int] = []
        for node in near:
            blocks.extend(self._nodes[node].block)
        nodes = sorted({*near, *blocks})
        part = self._graph.part(nodes)
        gone = {at for at, node in enumerate(nodes) if node in without}
        limits = Limits(
            [part.block_around(block, gone) for block in part.inside], skipped=gone
        )
        both = {nodes.index(index), nodes.index(other)}
        groups = would_fuse(part, [node in free for node in nodes], limits)
        return any(both.issubset(members) for members in groups)


def _blocks_between(node: FlowNode, other: FlowNode) -> Sequence[int]:
    """Return the branches and loops that contain one of two nodes, but not both."""
    every = (*node.block, *other.block)
    blocks = []
    for block in every:
        if block not in node.block or block not in other.block:
            blocks.append(block)
    return blocks
