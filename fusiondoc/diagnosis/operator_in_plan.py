"""An operator in its plan, and its neighbours there through views: the input of the
rules for reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers import facts_of, taken_by_any, takes_seldom, views_of_any
from fusiondoc.graph import graph_of_flow
from fusiondoc.graph.detours import once_a_flow
from fusiondoc.model.reasons import Container, NewerRule, OperatorAt, Side
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.operators import MAKERS, VIEWS
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit import OUT_OF_CONTAINERS
from fusiondoc.parsers.jit.flow import GROUP, OPERATOR, FlowNode
from fusiondoc.parsers.rows.unfused_rows import Outside

NOTHING_TO_GAIN = (
    VIEWS
    | MAKERS
    | {"aten::contiguous", "prim::GetAttr", "prim::data", "prim::ConstantChunk"}
)

MOST_BEHIND = 1_000
"""Nodes in each ring of nodes around an operator, at most."""


class Reach(NamedTuple):
    """The nodes that an operator reaches on one side through views that its fuser
    takes."""

    partners: tuple[tuple[FlowNode, tuple[FlowNode, ...]], ...]
    """The nodes that could be fused with it, and the views on the way to each."""
    barriers: tuple[FlowNode, ...]
    whole: bool
    """True if nothing was left out by the bounds of ``parsers/jit/hubs.py`` and
    Graph.most_passed."""


def _comparable(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """True if one of two blocks contains the other, or both are the same."""
    short = min(len(one), len(other))
    return one[:short] == other[:short]


@lru_cache(maxsize=4096)
def _tensors_of(types: tuple[str, ...]) -> tuple[TensorType, ...]:
    """Return the types that are single tensors. Cached: a plan has few different
    types."""
    parsed = map(parse_type, types)
    return tuple([one for one in parsed if isinstance(one, TensorType)])


def neighbours(nodes: Sequence[FlowNode], node: FlowNode) -> list[FlowNode]:
    """Return the nodes that make or take tensors of this node, by index."""
    return [nodes[i] for i in sorted({*node.before, *node.after})]


graph_of = once_a_flow(graph_of_flow)


class OperatorInPlan:
    """An operator in its plan."""

    def __init__(
        self, outside: Outside, fuser: str | None, torch: str | None = None
    ) -> None:
        self.flow = outside.flow
        self.loose = outside.node
        self.node = self.flow.nodes[self.loose.node]
        self.fuser = fuser
        self.torch = torch
        """The torch version that ran, if known."""
        self.unseen = outside.unseen
        self.gradients = outside.gradients
        self.refused = outside.refused
        self.region_end = outside.region_end

    def types(self) -> tuple[TensorType, ...]:
        return _tensors_of(self.node.inputs) + _tensors_of(self.node.outputs)

    def takes(self, op: str) -> bool:
        """True if the fuser has a rule for an operator; views do not count."""
        if op in NOTHING_TO_GAIN or takes_seldom(op, self.fuser):
            return False
        return op in self.catalogue

    @property
    def catalogue(self) -> frozenset[str]:
        """The operators that the fuser of this run can take; those of any fuser if
        it is not known which ran."""
        if self.fuser is None:
            return taken_by_any()
        facts = facts_of(self.fuser)
        if facts.operators.taken_in is not None and self.torch is not None:
            return facts.operators.taken_in(parse_version(self.torch))
        return facts.operators.takes

    def joinable(self, node: FlowNode) -> bool:
        if node.ran is False:
            return False
        if node.kind == OPERATOR:
            return node.index not in self.refused and self.takes(node.op)
        return node.kind == GROUP

    def reach(self, side: Side) -> Reach:
        """Return the nodes that it reaches on one side."""
        nodes = self.flow.nodes
        found = graph_of(self.flow).reach(
            [self.node.index], side, self._sees_through
        )
        partners: list[tuple[FlowNode, tuple[FlowNode, ...]]] = []
        barriers: list[FlowNode] = []
        for index, views in found.ends:
            if self._may_join(nodes[index]):
                partners.append(
                    (nodes[index], tuple(nodes[view] for view in views))
                )
            elif nodes[index].op not in MAKERS:
                barriers.append(nodes[index])
        shortened = self.flow.shortened[side == "after"]
        whole = found.whole and shortened.isdisjoint(
            (self.node.index, *found.passed)
        )
        return Reach(tuple(partners), tuple(barriers), whole)

    def _may_join(self, node: FlowNode) -> bool:
        return self.joinable(node) and _comparable(node.block, self.node.block)

    def _sees_through(self, index: int) -> bool:
        """True if a node is a view that the fuser takes into a group."""
        node = self.flow.nodes[index]
        if self._may_join(node) or node.op not in views_of_any():
            return False
        return index not in self.refused and node.op in self.catalogue_of_views

    def behind(self, barrier: FlowNode, side: Side) -> FlowNode | None:
        """Return the nearest node behind a barrier, up to three operators away,
        that could be fused; among equally near nodes the one on the barrier's far
        side."""
        far = barrier.before if side == "before" else barrier.after
        seen = {self.node.index, barrier.index}
        ring = sorted(self.neighbours(barrier), key=lambda n: n.index not in far)
        for _ in range(3):
            ring = [n for n in ring if n.index not in seen]
            seen.update(n.index for n in ring)
            for node in ring:
                if self.joinable(node) and node.block == self.node.block:
                    return node
            ring = list(
                islice((n for r in ring for n in self.neighbours(r)), MOST_BEHIND)
            )
        return None

    @property
    def catalogue_of_views(self) -> frozenset[str]:
        """The views that the fuser takes into a group."""
        if self.fuser is None:
            return views_of_any()
        facts = facts_of(self.fuser)
        if facts.operators.views_in is not None:
            return facts.operators.views_in(
                parse_version(self.torch) if self.torch is not None else None
            )
        return self.catalogue & VIEWS

    def neighbours(self, node: FlowNode) -> list[FlowNode]:
        return neighbours(self.flow.nodes, node)


def by_version(operator: OperatorInPlan, op: str) -> NewerRule | None:
    """Return the rule that only a later version than the fuser's oldest has, if the
    torch version is not known; None if it is known, or if all versions have the
    rule."""
    facts = facts_of(operator.fuser)
    if (
        operator.torch is not None
        or facts.operators.rule_since is None
        or facts.limits.since is None
    ):
        return None
    since = facts.operators.rule_since(op)
    if since is None or since <= facts.limits.since:
        return None
    return NewerRule(
        ".".join(map(str, since)), torch_known=False, fuser=operator.fuser
    )


def is_of_a_formula(source: str | None) -> bool:
    """True if a node belongs to a gradient formula of torch
    (torch/csrc/jit/runtime/symbolic_script.cpp), not to the program."""
    return source is not None and source.startswith("<string>")


def container_of(node: FlowNode) -> Container | None:
    """Return whether its tensors come out of a dict or list, or go into an
    attribute of an object; None for neither."""
    if any(
        one.maker in OUT_OF_CONTAINERS and one.by is None for one in node.operands
    ):
        return "out_of_container"
    if node.stored:
        return "into_object"
    return None


Rule = Callable[[OperatorInPlan], "Reason | None"]
"""Returns the reason of an operator, or None if the rule does not apply."""


def at(node: FlowNode) -> OperatorAt:
    return OperatorAt(node.op, node.source)
