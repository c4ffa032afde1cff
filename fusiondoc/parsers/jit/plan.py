"""A printed execution plan as it is kept: its fusion groups, the tensor operators
outside them, and their flow.

``plan_walk.py`` makes it from a parsed dump (:mod:`fusiondoc.parsers.ir`), which
can then be dropped. The flow of tensors is kept apart from it: it takes most of the
memory, and few steps need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.model.groups import Wiring
from fusiondoc.parsers.jit import SizedOnly
from fusiondoc.parsers.jit.flow import Flow
from fusiondoc.parsers.jit.gradient_plans import GradientPlan
from fusiondoc.parsers.jit.patterns import PatternedPart, Whole

Op = tuple[str, "str | None"]
"""(kind, source): identifies an operator across dumps, in which value names
change."""

HashedOps = frozenset[int]
"""Hashes of operators, by which plans are compared: a log can have a hundred
thousand operators."""


def hashed(ops: Iterable[Op]) -> HashedOps:
    return frozenset(map(hash, ops))


class PlanGroup(NamedTuple):
    """A fusion group in a plan, or a group graph that is printed alone."""

    kind: str
    name: str
    body: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    line: int
    """Offset of the group's ``with`` section in the dump (of the node if the
    section is missing)."""
    values: tuple[str, ...]
    """Names of the node's outputs."""
    canonical: bytes
    """Digest of the group's key in the kernel cache (``group_bodies.py``): groups
    with equal digests share their kernels."""
    layer: str | None = None
    """The module to which it belongs: see
    :func:`fusiondoc.parsers.jit.layer_names.common_layer`."""
    conditional: bool = False
    """True if it is in a branch or loop of the program, so that it need not run
    exactly once in every run of the plan."""
    node: int = -1
    """Its index in the flow of its graph; -1 for a graph printed alone."""
    sized: tuple[SizedOnly, ...] = ()
    """Reductions over constant dimensions whose size the plan computes."""
    wiring: Wiring = Wiring()


class GroupGraph(NamedTuple):
    """The graph of a group that a fuser prints by itself. A log can have ten
    thousand."""

    canonical: bytes
    """See ``PlanGroup``."""
    operators: tuple[str, ...]
    """The names of its operators."""


class LooseNode(NamedTuple):
    """A tensor operator outside every group."""

    op: str
    source: str | None
    value: str
    line: int
    types: tuple[str, ...]
    node: int
    """Its index in the flow of its graph."""
    layer: str | None = None
    """The module to which it belongs."""


@dataclass
class DiffGraph:
    """The body of a prim::DifferentiableGraph as the outer plan prints it: its own
    executor fuses it later."""

    ops: frozenset[Op]
    node: int
    """Its index in the flow of the plan; for a nested graph, the index of the
    outermost graph. -1 if the node of the outermost is missing."""
    nested: bool
    """True if it is inside another differentiable graph, or inside a graph whose
    node is missing."""
    groups: list[PlanGroup] = field(default_factory=list)
    loose: list[LooseNode] = field(default_factory=list)


class Flows(NamedTuple):
    """How tensors flow through a plan."""

    outer: Flow | None = None
    inner: tuple[Flow | None, ...] = ()
    """The flows of its differentiable graphs, in order."""

    @property
    def looked_at_in_part(self) -> int:
        """The number of nodes with more neighbours than the rules for reasons
        inspect."""
        return sum(
            flow.looked_at_in_part
            for flow in (self.outer, *self.inner)
            if flow is not None
        )


class Traits(NamedTuple):
    """The facts about a plan that hold for all plans of its form
    (``printed_forms.py``)."""

    backward: bool
    of_region: bool
    users: bool
    traced: bool
    complete: bool
    may_be_fallback: bool
    gradient: bool
    """True if it has checks for which gradients are defined."""
    groups: bool
    """True if it has groups outside differentiable graphs."""
    diff_graphs: bool
    numbers: bool
    """True if some nodes compute only with host numbers."""
    sized: bool
    """True if some group has reductions whose size the plan computes."""
    looked_at_in_part: int
    """See ``Flows``."""
    nodes: int
    """Number of nodes in its outer flow."""
    profiled_gradients: bool
    """True if a tensor in the outer flow was profiled with ``requires_grad=1``."""
    copies: tuple[str, ...]
    """The kinds of copies that replace views in its groups (``prim::*_copy``)."""


@dataclass
class Plan:
    groups: list[PlanGroup] = field(default_factory=list)
    loose: list[LooseNode] = field(default_factory=list)
    diff_graphs: list[DiffGraph] = field(default_factory=list)
    backward: bool = False
    """True if the graph has nodes that only executors of gradients have
    (prim::AutogradAdd, ...)."""
    of_region: bool = False
    """True if only the executor of a differentiable graph, forward or backward, can
    have such a graph: it returns several values or none, where a function or method
    always returns one, or it has nodes of autodiff."""
    numbers: set[Op] = field(default_factory=set)
    """Nodes that compute only with host numbers, so that they are no operators
    (``HostNumbers``)."""
    users: bool = False
    """True if the graph has a node from a source file (autodiff formulas have the
    source ``<string>``)."""
    traced: bool = False
    """True if the graph has scopes, which only tracing writes."""
    complete: bool = True
    may_be_fallback: bool = False
    """True if it has the form of a fallback function; the group that its guard
    protects decides whether it is one."""
    gradient: GradientPlan | None = None
    """Set for a gradient's plan with checks for defined gradients."""

    def every_group(self) -> Sequence[PlanGroup]:
        """Return its groups, then the groups in its differentiable graphs."""
        if not self.diff_graphs:
            return self.groups
        return [
            *self.groups,
            *(group for inner in self.diff_graphs for group in inner.groups),
        ]

    def ops(self) -> frozenset[Op]:
        """Return every operator of the plan, in groups or not."""
        found = {(node.op, node.source) for node in self.loose}
        for group in self.groups:
            found.update(group.body)
        return frozenset(found)

    def content(self) -> int:
        """Return a hash that is equal for two plans if their groups and operators
        are equal, including types."""
        groups = tuple(
            (group.body, group.inputs, group.node) for group in self.groups
        )
        return hash(
            (
                groups,
                tuple(
                    (node.op, node.source, node.types, node.node)
                    for node in self.loose
                ),
            )
        )

    def traits(self, flows: Flows) -> Traits:
        return Traits(
            self.backward,
            self.of_region,
            self.users,
            self.traced,
            self.complete,
            self.may_be_fallback,
            self.gradient is not None,
            bool(self.groups),
            bool(self.diff_graphs),
            bool(self.numbers),
            any(group.sized for group in self.every_group()),
            flows.looked_at_in_part,
            len(flows.outer.nodes) if flows.outer is not None else 0,
            flows.outer is not None and flows.outer.gradients,
            tuple(
                sorted({kind for kind, _ in self.ops() if kind.endswith("_copy")})
            ),
        )


class PlanParts(NamedTuple):
    """A plan as it is kept: its graph is rebuilt from its form and texts when it is
    needed."""

    traits: Traits
    plan: PatternedPart[Plan]
    flows: PatternedPart[Flows]

    @classmethod
    def of(cls, plan: Plan, flows: Flows) -> PlanParts:
        """Wrap a plan that was read without a pattern."""
        return cls(plan.traits(flows), Whole(plan), Whole(flows))
