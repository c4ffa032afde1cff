"""What one printed execution plan says: its fusion groups and the tensor operators outside them.

Works on a parsed dump (:mod:`fusiondoc.parsers.ir`) and keeps only what the report needs, so that the graph
itself can be dropped. Source of the rules: torch/csrc/jit/codegen/cuda/graph_fuser.cpp (1.12 to 2.0) and
torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.parsers.jit import (
    AUTOGRAD,
    FUSION_KINDS,
    GUARDS,
    NOT_OPERATORS,
    SIZES,
    HostNumbers,
    SizedOnly,
    constant_dims,
    hands_on,
    is_fallback,
    is_operator,
    of_autodiff,
    only_sized,
)
from fusiondoc.parsers.jit.earlier_graphs import GradientPlan, Profiled, Regions, gradient_plan
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, OPERATOR, PYTHON, REGION, SIDE_EFFECTS, Flow
from fusiondoc.parsers.jit.layers import Layers, layers_of
from fusiondoc.parsers.jit.printed_forms import Canonical, canonical_digest

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Dump, Graph, Node

_DEEPEST = 60
"""Differentiable graphs in one another beyond this are not entered: the walk recurses. torch makes two."""

_SYMBOL = re.compile(r"SS\((-?\d+)\)")

Op = tuple[str, "str | None"]
"""(kind, source): what identifies an operator across dumps, in which value names change."""


@dataclass(frozen=True)
class PlanGroup:
    kind: str
    name: str
    body: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    line: int
    """Offset of the group's ``with`` section in the dump (of the node if the section is missing)."""
    values: tuple[str, ...]
    """Names of the node's outputs."""
    canonical: bytes
    """The key of a kernel cache: the graph without value names and sources, but with the scopes
    that tracing adds, as ``Node::print`` writes it without source locations. So equal groups of other source
    lines have it too, and those of other traced layers do not (torch/csrc/jit/codegen/cuda/manager.cpp,
    registerOrGetCacheId)."""
    layer: str | None = None
    """The module that it belongs to: see :func:`fusiondoc.parsers.jit.layers.common_layer`."""
    op_layers: tuple[str | None, ...] = ()
    """The layer of each operator of ``body``, or nothing for a graph printed alone."""
    conditional: bool = False
    """It stands in a branch or loop of the program, so it need not run once in every run of the plan."""
    place: int = -1
    """Its index in the flow of its graph; -1 for a graph printed alone."""
    sized: tuple[SizedOnly, ...] = ()
    """Reductions over constant dimensions of which the plan computes the size."""


class LooseNode(NamedTuple):
    """A tensor operator outside every group."""

    op: str
    source: str | None
    value: str
    line: int
    types: tuple[str, ...]
    place: int
    """Its index in the flow of its graph."""
    layer: str | None = None
    """The module that it belongs to."""


@dataclass
class DiffGraph:
    """The body of a prim::DifferentiableGraph as the outer plan prints it: its own executor fuses it
    later."""

    ops: frozenset[Op]
    place: int
    """Its index in the flow of the plan; of one in another, that of the outermost. -1 where the node of the
    outermost is missing."""
    nested: bool
    """It stands in another one, or in a graph whose node is missing."""
    groups: list[PlanGroup] = field(default_factory=list)
    loose: list[LooseNode] = field(default_factory=list)
    flow: Flow | None = None


@dataclass
class Plan:
    groups: list[PlanGroup] = field(default_factory=list)
    loose: list[LooseNode] = field(default_factory=list)
    diff_graphs: list[DiffGraph] = field(default_factory=list)
    backward: bool = False
    """The graph holds nodes that only gradient executors have (prim::AutogradAdd, ...)."""
    of_region: bool = False
    """Only the executor of a differentiable graph, forward or backward, has such a graph: it returns several
    values or none, where a function or method always returns one, or it holds nodes of autodiff."""
    numbers: set[Op] = field(default_factory=set)
    """What computes with numbers of the host alone, and is no operator (``HostNumbers``)."""
    users: bool = False
    """The graph holds a node of a source file (autodiff formulas have the source ``<string>``)."""
    traced: bool = False
    """The graph has scopes, which only tracing writes."""
    complete: bool = True
    may_be_fallback: bool = False
    """It has the form of a fallback function: what its guard protects tells whether it is one."""
    flow: Flow | None = None
    gradient: GradientPlan | None = None
    """Set for a gradient's plan with checks of what is defined."""

    def every_group(self) -> Sequence[PlanGroup]:
        """Its groups, then those that stand in its differentiable graphs."""
        if not self.diff_graphs:
            return self.groups
        return [*self.groups, *(group for inner in self.diff_graphs for group in inner.groups)]

    def ops(self) -> frozenset[Op]:
        """Every operator of the plan, in groups or not."""
        found = {(n.op, n.source) for n in self.loose}
        for group in self.groups:
            found.update(group.body)
        return frozenset(found)


def summarise(
    dump: Dump,
    profiled: Profiled | None = None,
    regions: Regions | None = None,
    canonical: Canonical = canonical_digest,
) -> Plan:
    """What a plan's dump says. Bodies of FallbackGraph and fallback_function count for nothing.

    Args:
        profiled: what the graph tells that the same pass began with.
        regions: the differentiable graphs of the plans before it; its own are added.
        canonical: makes the digests of its groups (``PlanGroup.canonical``).
    """
    plan = Plan(complete=dump.complete, may_be_fallback=_may_be_fallback(dump), gradient=gradient_plan(dump))
    layers = layers_of(dump, regions if regions is not None else Regions())
    plan.flow = _Walk(dump, plan, layers, canonical, plan.groups, plan.loose, profiled).graph(dump.graph)
    plan.traced = layers.scopes
    plan.of_region = plan.backward or (dump.graph.complete and len(dump.graph.outputs) != 1)
    _add_ownerless(dump, plan, layers, canonical)
    return plan


def summarise_rest(dump: Dump, canonical: Canonical = canonical_digest) -> Plan:
    """What is left of a plan's dump whose beginning is missing: its groups that are printed whole.

    Whose nodes the first lines are cannot be told: they may be in a group or a FallbackGraph."""
    known = summarise(dump, canonical=canonical)
    groups = [replace(group, place=-1) for group in known.every_group()]
    return Plan(groups, backward=known.backward, of_region=known.of_region, users=known.users, complete=False)


def _add_ownerless(dump: Dump, plan: Plan, layers: Layers, canonical: Canonical) -> None:
    """Groups whose section is whole though the line of their node is missing or mangled."""
    if dump.complete:
        return
    for section in dump.sections:
        if section.node is not None or not section.graph.complete:
            continue
        if section.kind in FUSION_KINDS:
            body = section.graph
            kind, at = FUSION_KINDS[section.kind], _At(body.line)
            plan.groups.append(_group_of(kind, section.name, body, (), layers, at, canonical))
            plan.users = plan.users or any(_from_file(source) for _, source in plan.groups[-1].body)
        elif section.kind == "prim::DifferentiableGraph":
            inner: list[PlanGroup] = []
            _Walk(dump, plan, layers, canonical, inner, [], region=-1).graph(section.graph)
            plan.groups += [replace(group, place=-1) for group in inner]


def _may_be_fallback(dump: Dump) -> bool:
    """Whether it can be the plan of a ``fallback_function``: ``createFallbackPathFunction``
    (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp) makes it return one tuple. A gradient executor
    does so too, but has nodes of autodiff: in its plan, or in the copy of its graph that
    torch/csrc/jit/passes/specialize_autogradzero.cpp keeps for gradients that are zero. That pass gives the
    fallback function of a group with ``aten::_grad_sum_to_size`` such a copy as well.
    """
    graph = dump.graph
    returned = graph.outputs
    if len(returned) != 1:
        return False
    # A graph can have 100,000 nodes: all are looked at only where one of the two kinds returns it.
    name = returned[0]
    if not any(node.kind in _RETURN and _makes(node, name) for node in graph.nodes):
        return False
    makers = [node for node in graph.nodes if _makes(node, name)]
    if len(makers) != 1:
        return False
    maker = makers[0]
    copies: list[Node] = []
    if maker.kind == "prim::If" and len(maker.blocks) == 2 and is_fallback(maker.blocks[1].nodes):
        made = maker.blocks[0].nodes
        if not made or made[-1].kind != "prim::TupleConstruct":
            return False
        copies = [inner for node in maker.blocks[1].nodes for inner in _body_of(dump, node)]
    elif maker.kind != "prim::TupleConstruct":
        return False
    return not any(of_autodiff(node) for node in (*graph.walk(), *copies))


_RETURN = ("prim::If", "prim::TupleConstruct")


def _makes(node: Node, name: str) -> bool:
    return any(value.name == name for value in node.outputs)


def _body_of(dump: Dump, node: Node) -> Iterable[Node]:
    body = dump.resolve(node)
    return body.walk() if body is not None else ()


def summarise_group(dump: Dump, canonical: Canonical = canonical_digest) -> PlanGroup:
    """A dump that is the body of a group itself (kernel_cache's ``GraphCache created for graph``)."""
    return _group_of("CudaFusionGroup", "", dump.graph, (), Layers({}, frozenset()), _At(0), canonical)


class _Walk:
    """One graph and the blocks in it."""

    def __init__(
        self,
        dump: Dump,
        plan: Plan,
        layers: Layers,
        canonical: Canonical,
        groups: list[PlanGroup],
        loose: list[LooseNode],
        profiled: Profiled | None = None,
        above: int = 0,
        region: int | None = None,
    ) -> None:
        self.above = above
        """Graphs and blocks around this graph."""
        self.region = region
        """The differentiable graph of the plan that this graph is of or stands in, by its place; None for the
        graph of the plan itself."""
        self.dump = dump
        self.plan = plan
        self.layers = layers
        self.canonical = canonical
        self.groups = groups
        self.loose = loose
        self._profiled = profiled or Profiled()
        self.flow = Flow(self._profiled.types)
        self._numbers = HostNumbers(self.flow.type_of)
        self._sized: set[tuple[int, ...]] = set()
        """Dimensions with which nodes of the fusion pass compute sizes; they stand before the group."""

    def graph(self, graph: Graph) -> Flow:
        for value in graph.params:
            self.flow.define(value.name, value.type)
            self._numbers.parameter(value.name, self.flow.type_of(value.name))
        # An executor makes a plan of a graph that ran.
        self.nodes(graph.nodes, (), True)
        self._ask()
        self.flow.close()
        return self.flow

    def _ask(self) -> None:
        """Note what takes a dtype or device of the operators outside groups."""
        asked = self._profiled.asked
        self.flow.asked = {one.place: asked[one.value] for one in self.loose if one.value in asked}
        if self.flow.asked:
            self.flow.bodies = {group.place: frozenset(group.body) for group in self.groups}

    def nodes(self, nodes: Iterable[Node], block: tuple[int, ...], ran: bool | None) -> None:
        flow = self.flow
        first = len(flow.nodes)
        for node in nodes:
            kind = node.kind
            flow.remember(node)
            if kind == "prim::Constant":  # half of them
                self.plan.users = self.plan.users or _from_file(node.source)
                self._numbers.made(node)
            elif kind in FUSION_KINDS:
                self._group(node, block)
            elif kind == "prim::DifferentiableGraph":
                self._region(node, block)
            else:
                self._other(node, block)
        self._settle_ran(first, block, ran)

    def _settle_ran(self, first: int, block: tuple[int, ...], ran: bool | None) -> None:
        """A block runs as a whole: what is known of some of its nodes holds for those that a pass added."""
        inside = self.flow.nodes[first:]
        known = {node.ran for node in inside if node.ran or len(node.block) == len(block)} - {None}
        for node in inside:
            if node.ran is None and node.block == block:
                node.ran = True in known if known else ran

    def _group(self, node: Node, block: tuple[int, ...]) -> None:
        body = self.dump.resolve(node)
        place = self.flow.add(GROUP, node, block)
        self.flow.nodes[place].ran = True  # without profiled types there is no group
        if body is not None:
            values = tuple(v.name for v in node.outputs)
            sized = tuple(one for one in only_sized(body) if one.dims in self._sized) if self._sized else ()
            name = node.ref or node.kind
            at = _At(body.line, bool(block), place, sized)
            group = _group_of(FUSION_KINDS[node.kind], name, body, values, self.layers, at, self.canonical)
            self.groups.append(group)
            self.plan.users = self.plan.users or any(_from_file(source) for _, source in group.body)

    def _region(self, node: Node, block: tuple[int, ...]) -> None:
        if self._numbers.computes(node):
            return
        body = self.dump.resolve(node)
        place = self.flow.add(REGION, node, block)
        # One whose inputs were not profiled is dissolved again (guardDifferentiableGraph of
        # torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp).
        self.flow.nodes[place].ran = True
        depth = self.above + len(block) + 1
        if body is not None and depth <= _DEEPEST:
            ops = frozenset((n.kind, n.source) for n in body.walk())
            outermost = place if self.region is None else self.region
            inner = DiffGraph(ops, outermost, self.region is not None)
            lists = inner.groups, inner.loose
            walk = _Walk(self.dump, self.plan, self.layers, self.canonical, *lists, None, depth, outermost)
            inner.flow = walk.graph(body)
            self.plan.diff_graphs.append(inner)

    def _other(self, node: Node, block: tuple[int, ...]) -> None:
        kind = node.kind
        if kind.startswith(AUTOGRAD):
            self.plan.backward = True
        if _from_file(node.source):
            self.plan.users = True
        if kind == SIZES and len(node.inputs) > 1:
            self._sized.add(constant_dims(self.flow.constant(node.inputs[1])))
        blocks = node.blocks
        if blocks and kind == "prim::If" and len(blocks) == 2 and is_fallback(blocks[1].nodes):
            self.nodes(blocks[0].nodes, block, None)
            for value, inner in zip(node.outputs, blocks[0].outputs):
                self.flow.alias(value.name, (inner,))
                self._numbers.alias(value.name, inner)
            return
        operator = is_operator(node)
        stop = PYTHON if kind.startswith(PYTHON) else kind
        if stop in SIDE_EFFECTS:
            self.flow.stops.append((len(self.flow.nodes), stop, node.source))
        if kind == "prim::SetAttr":
            self.flow.store(node)
        if not blocks and not operator:
            if kind in GUARDS or kind.startswith(NOT_OPERATORS) or hands_on(kind, node.outputs):
                self.flow.pass_through(node)
                self._numbers.handed_on(node)
            else:
                self._numbers.made(node)
            return
        if not blocks and self._numbers.computes(node):
            self.plan.numbers.add((kind, node.source))
            return
        index = self.flow.add(CONTROL if blocks else OPERATOR, node, block)
        added = self.flow.nodes[index]
        outputs = node.outputs
        name = outputs[0].name if outputs else ""
        added.ran = self._profiled.ran.get(name)
        ran = self._profiled.blocks.get(name, ()) if blocks else ()
        if blocks:
            added.condition = self.flow.condition_of(node)
            self.flow.decides(index, node)
        for inner_block, inner_ran in zip(blocks, ran or repeat(None)):
            for place, value in enumerate(inner_block.params):
                self.flow.define(value.name, value.type)
                if place and place + 1 < len(node.inputs):
                    self.flow.alias(value.name, (node.inputs[place + 1],))
            self.nodes(inner_block.nodes, (*block, index), inner_ran)
            self.flow.leave_block(index, inner_block.outputs)
        if operator:
            types = tuple([v.type for v in outputs])
            known = added.outputs
            types = known if types == known else types
            layer = self.layers.of.get(id(node))
            self.loose.append(LooseNode(kind, node.source, name, node.line, types, index, layer))


def _from_file(source: str | None) -> bool:
    return source is not None and not source.startswith("<")


class _At(NamedTuple):
    """Where a group stands in its plan: the fields of ``PlanGroup`` of these names."""

    line: int
    conditional: bool = False
    place: int = -1
    sized: tuple[SizedOnly, ...] = ()


def _group_of(
    kind: str,
    name: str,
    body: Graph,
    values: tuple[str, ...],
    layers: Layers,
    at: _At,
    canonical_of: Canonical,
) -> PlanGroup:
    ops = []
    nodes = []
    params, returned = body.params, body.outputs
    types = {v.name: v.type for v in params}
    numbers = {v.name: i for i, v in enumerate(params)}
    canonical = [v.type for v in params]
    for node in body.walk():
        node_kind, scope = node.kind, node.scope
        canonical.append(node_kind)
        canonical += [str(numbers.get(v)) for v in node.inputs]
        attributes = node.attributes
        if attributes:
            canonical += ["[", *chain.from_iterable(sorted(attributes.items())), "]"]
        if scope:
            canonical += ("scope", scope)
        for value in node.outputs:
            name_of, text = value.name, value.type
            types[name_of] = text
            numbers[name_of] = len(numbers)
            canonical += (":", text)
        if node_kind != "prim::Constant":
            ops.append((node_kind, node.source))
            nodes.append(node)
    canonical.append("return")
    canonical += [str(numbers.get(v)) for v in returned]
    symbols: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        return symbols.setdefault(found.group(1), f"SS(-{len(symbols) + 2})")

    def renamed(text: str) -> str:
        return _SYMBOL.sub(rename, text) if "SS(" in text else text

    inputs = tuple(renamed(v.type) for v in params)
    outputs = tuple(renamed(types.get(name, "")) for name in returned)
    key = canonical_of("\0".join(canonical))
    return PlanGroup(
        kind,
        name,
        tuple(ops),
        inputs,
        outputs,
        at.line,
        values,
        key,
        layers.of_group(nodes),
        tuple(layers.of.get(id(node)) for node in nodes),
        at.conditional,
        at.place,
        at.sized,
    )
