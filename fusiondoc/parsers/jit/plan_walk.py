"""Turns a parsed dump of an execution plan into a
:class:`~fusiondoc.parsers.jit.plan.Plan`.

Source of the rules: torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp (1.12
to 2.13), and the pass of each fuser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.parsers.jit import (
    AUTOGRAD,
    FUSION_KINDS,
    GUARDS,
    NOT_OPERATORS,
    SIZES,
    HostNumbers,
    constant_dims,
    hands_on,
    is_guarded,
    is_operator,
    of_autodiff,
    only_sized,
)
from fusiondoc.parsers.jit.flow import (
    CONTROL,
    GROUP,
    OPERATOR,
    PYTHON,
    REGION,
    SIDE_EFFECTS,
    Flow,
    FlowNode,
    Stop,
)
from fusiondoc.parsers.jit.gradient_plans import gradient_plan
from fusiondoc.parsers.jit.group_bodies import GroupNode, group_of
from fusiondoc.parsers.jit.layers import Layers, layers_of
from fusiondoc.parsers.jit.patterns import Canonical, canonical_digest
from fusiondoc.parsers.jit.plan import DiffGraph, Flows, LooseNode, Plan, PlanGroup
from fusiondoc.parsers.jit.profiled_graphs import ProfiledFacts, PropertyRead
from fusiondoc.parsers.jit.regions import Regions

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Block, Graph, IrDump, Node

_DEEPEST = 60
"""Nesting of differentiable graphs that is entered, since the walk recurses. torch
nests two."""
_TUPLE = "prim::TupleConstruct"
_BY_MODULE = ("attribute", "training")
_BY_CALLER = ("argument", "test_for_none", "shape_or_type")
"""Conditions of branches."""


class Summary(NamedTuple):
    """A plan, and how tensors flow through it."""

    plan: Plan
    flows: Flows


def summarise(
    dump: IrDump,
    profiled: ProfiledFacts | None = None,
    regions: Regions | None = None,
    canonical: Canonical = canonical_digest,
) -> Summary:
    """Return the plan of a dump, and its flows. Bodies of FallbackGraph and
    fallback_function are left out.

    Args: profiled: known from the graph with which the same pass began. regions:
    the differentiable graphs of earlier plans; those of this plan are added.
    canonical: makes the digests of its groups (``PlanGroup.canonical``).
    """
    plan = Plan(
        complete=dump.complete,
        may_be_fallback=_may_be_fallback(dump),
        gradient=gradient_plan(dump),
    )
    layers = layers_of(dump, regions if regions is not None else Regions())
    walked = _Walked(dump, plan, layers, canonical, [])
    outer = _Walk(walked, plan.groups, plan.loose, profiled).graph(dump.graph)
    plan.traced = layers.scopes
    plan.of_region = plan.backward or (
        dump.graph.complete and len(dump.graph.outputs) != 1
    )
    if not dump.complete:
        _add_ownerless(walked)
    return Summary(plan, Flows(outer, tuple(walked.inner)))


def summarise_rest(
    dump: IrDump, canonical: Canonical = canonical_digest
) -> Summary:
    """Return the plan of a dump whose beginning is missing: only its complete
    groups.

    The owner of the first nodes is not known: they may be in a group or a
    FallbackGraph.
    """
    known = summarise(dump, canonical=canonical).plan
    groups = [group._replace(node=-1) for group in known.every_group()]
    plan = Plan(
        groups,
        backward=known.backward,
        of_region=known.of_region,
        users=known.users,
        complete=False,
    )
    return Summary(plan, Flows())


def summarise_group(
    dump: IrDump, canonical: Canonical = canonical_digest
) -> PlanGroup:
    """Return the group of a dump that is itself the body of a group (kernel_cache's
    ``GraphCache created for graph``)."""
    return group_of(
        "CudaFusionGroup",
        "",
        dump.graph,
        GroupNode(line=0),
        Layers({}, frozenset()),
        canonical,
    )


class _Walked(NamedTuple):
    """The dump that is walked, and the plan that is made from it."""

    dump: IrDump
    plan: Plan
    layers: Layers
    canonical: Canonical
    inner: list[Flow | None]
    """The flows of the plan's differentiable graphs, in their order."""


def _add_ownerless(walked: _Walked) -> None:
    """Add groups whose section is complete but whose node's line is missing or
    damaged."""
    plan = walked.plan
    for section in walked.dump.sections:
        if section.node is not None or not section.graph.complete:
            continue
        if section.kind in FUSION_KINDS:
            at = GroupNode(section.graph.line)
            kind = FUSION_KINDS[section.kind]
            _add_group(
                plan.groups,
                group_of(
                    kind,
                    section.name,
                    section.graph,
                    at,
                    walked.layers,
                    walked.canonical,
                ),
                plan,
            )
        elif section.kind == "prim::DifferentiableGraph":
            inner: list[PlanGroup] = []
            _Walk(walked, inner, [], region=-1).graph(section.graph)
            plan.groups += [group._replace(node=-1) for group in inner]


def _add_group(groups: list[PlanGroup], group: PlanGroup, plan: Plan) -> None:
    groups.append(group)
    plan.users = plan.users or any(_from_file(source) for _, source in group.body)


def _from_file(source: str | None) -> bool:
    return source is not None and not source.startswith("<")


# -- fallback functions --------------------------------------------------------------------------------------


def _may_be_fallback(dump: IrDump) -> bool:
    """True if this can be the plan of a ``fallback_function``:
    ``createFallbackPathFunction``
    (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp) makes it return one
    tuple. An executor of a gradient does so too, but has nodes of autodiff: in its
    plan, or in the copy of its graph that
    torch/csrc/jit/passes/specialize_autogradzero.cpp keeps for gradients that are
    zero. That pass also gives the fallback function of a group with
    ``aten::_grad_sum_to_size`` such a copy."""
    maker = _maker_of_the_result(dump.graph)
    if maker is None:
        return False
    copies: list[Node] = []
    if is_guarded(maker):
        made = maker.blocks[0].nodes
        if not made or made[-1].kind != _TUPLE:
            return False
        for node in maker.blocks[1].nodes:
            copy = dump.resolve(node)
            copies += copy.walk() if copy is not None else ()
    elif maker.kind != _TUPLE:
        return False
    return not any(of_autodiff(node) for node in chain(dump.graph.walk(), copies))


def _maker_of_the_result(graph: Graph) -> Node | None:
    """Return the prim::If or prim::TupleConstruct that makes the only output of a
    graph, if no other node makes it."""
    if len(graph.outputs) != 1:
        return None
    name = graph.outputs[0]
    # A graph can have 100,000 nodes: all are searched only if a node of the two
    # kinds makes the output.
    if not any(
        node.kind in ("prim::If", _TUPLE) and _makes(node, name)
        for node in graph.nodes
    ):
        return None
    makers = [node for node in graph.nodes if _makes(node, name)]
    if len(makers) == 1:
        return makers[0]
    return None


def _makes(node: Node, name: str) -> bool:
    return any(value.name == name for value in node.outputs)


# -- nodes ---------------------------------------------------------------------------------------------------


class _Walk:
    """Walks a graph and the blocks in it. Its groups and its operators outside
    groups go into the two lists.

    Args:
        above: number of graphs and blocks around this graph.
        region: index of the outermost differentiable graph of the plan that
            contains this graph; None for the graph of the plan itself.
    """

    def __init__(
        self,
        walked: _Walked,
        groups: list[PlanGroup],
        loose: list[LooseNode],
        profiled: ProfiledFacts | None = None,
        above: int = 0,
        region: int | None = None,
    ) -> None:
        self._walked = walked
        self._dump = walked.dump
        self._plan = walked.plan
        self._groups = groups
        self._loose = loose
        self._profiled = profiled or ProfiledFacts()
        self._above = above
        self._region = region
        self._flow = Flow(self._profiled.types)
        self._numbers = HostNumbers(self._flow.type_of)
        self._sized: set[tuple[int, ...]] = set()
        """Dimensions with which nodes of the fusion pass compute sizes; those nodes
        come before the group."""

    def graph(self, graph: Graph) -> Flow:
        for value in graph.params:
            self._flow.define(value.name, value.type)
            self._numbers.parameter(value.name, self._flow.type_of(value.name))
        # An executor makes plans only of graphs that ran.
        self._nodes(graph.nodes, (), True)
        self._note_property_reads()
        self._flow.close()
        return self._flow

    def _note_property_reads(self) -> None:
        """Record the nodes that read the dtype, device or layout of other nodes'
        results."""
        reads = self._profiled.property_reads
        if reads:
            self._flow.waits += self._property_pairs(
                chain.from_iterable(reads.values())
            )
        self._flow.property_reads = {
            loose.node: reads[loose.value]
            for loose in self._loose
            if loose.value in reads
        }
        if self._flow.property_reads:
            self._flow.bodies = {
                group.node: frozenset(group.body) for group in self._groups
            }

    def _property_pairs(
        self, reads: Iterable[PropertyRead]
    ) -> Sequence[tuple[int, int]]:
        """Return the pairs of plan nodes between which a property is read, found by
        kind and source: the reader, or the node that makes the tensor, may be in a
        group."""
        nodes: dict[tuple[str, str | None], set[int]] = {}
        for loose in self._loose:
            nodes.setdefault((loose.op, loose.source), set()).add(loose.node)
        for group in self._groups:
            for one in group.body:
                nodes.setdefault(one, set()).add(group.node)
        pairs = {
            (maker, taker)
            for read in reads
            if read.of is not None
            for maker in nodes.get(read.of, ())
            for taker in nodes.get((read.op, read.source), ())
            if maker < taker
        }
        return sorted(pairs)

    def _nodes(
        self, nodes: Iterable[Node], block: tuple[int, ...], ran: bool | None
    ) -> None:
        flow = self._flow
        first = len(flow.nodes)
        for node in nodes:
            kind = node.kind
            flow.remember(node)
            if kind == "prim::Constant":  # half of all nodes
                self._plan.users = self._plan.users or _from_file(node.source)
                self._numbers.made(node)
            elif kind in FUSION_KINDS:
                self._group(node, block)
            elif kind == "prim::DifferentiableGraph":
                self._differentiable(node, block)
            else:
                self._other(node, block)
        self._settle_ran(first, block, ran)

    def _settle_ran(
        self, first: int, block: tuple[int, ...], ran: bool | None
    ) -> None:
        """Set ``ran`` for nodes that a pass added to a block. A block runs as a
        whole, so the nodes for which it is known decide."""
        inside = self._flow.nodes[first:]
        known = {
            node.ran for node in inside if node.ran or len(node.block) == len(block)
        } - {None}
        for node in inside:
            if node.ran is None and node.block == block:
                node.ran = True in known if known else ran

    def _group(self, node: Node, block: tuple[int, ...]) -> None:
        body = self._dump.resolve(node)
        index = self._flow.add(GROUP, node, block)
        self._flow.nodes[index].ran = True  # a group needs profiled types
        if body is None:
            return
        values = tuple(value.name for value in node.outputs)
        if self._sized:
            sized = tuple(
                one for one in only_sized(body) if one.dims in self._sized
            )
        else:
            sized = ()
        at = GroupNode(body.line, values, bool(block), index, sized)
        kind, name = FUSION_KINDS[node.kind], node.ref or node.kind
        group = group_of(
            kind, name, body, at, self._walked.layers, self._walked.canonical
        )
        _add_group(self._groups, group, self._plan)

    def _differentiable(self, node: Node, block: tuple[int, ...]) -> None:
        if self._numbers.computes(node):
            return
        body = self._dump.resolve(node)
        index = self._flow.add(REGION, node, block)
        # A differentiable graph whose inputs were not profiled is dissolved again
        # (guardDifferentiableGraph of
        # torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp).
        self._flow.nodes[index].ran = True
        depth = self._above + len(block) + 1
        if body is None or depth > _DEEPEST:
            return
        ops = frozenset((inner.kind, inner.source) for inner in body.walk())
        outermost = index if self._region is None else self._region
        inside = DiffGraph(ops, outermost, self._region is not None)
        flow = _Walk(
            self._walked, inside.groups, inside.loose, None, depth, outermost
        ).graph(body)
        self._plan.diff_graphs.append(inside)
        self._walked.inner.append(flow)

    def _other(self, node: Node, block: tuple[int, ...]) -> None:
        if node.kind.startswith(AUTOGRAD):
            self._plan.backward = True
        if _from_file(node.source):
            self._plan.users = True
        if node.kind == SIZES and len(node.inputs) > 1:
            self._sized.add(constant_dims(self._flow.constant(node.inputs[1])))
        if is_guarded(node):
            self._guarded(node, block)
            return
        self._note_side_effect(node, block)
        if node.blocks:
            self._control(node, block)
        elif is_operator(node):
            self._operator(node, block)
        elif self._passes_through(node):
            self._flow.pass_through(node)
            self._numbers.handed_on(node)
        else:
            self._numbers.made(node)

    def _guarded(self, node: Node, block: tuple[int, ...]) -> None:
        """Walk the first block of a guard's prim::If, which itself computes
        nothing."""
        taken = node.blocks[0]
        self._nodes(taken.nodes, block, None)
        for value, inner in zip(node.outputs, taken.outputs):
            self._flow.alias(value.name, (inner,))
            self._numbers.alias(value.name, inner)

    def _note_side_effect(self, node: Node, block: tuple[int, ...]) -> None:
        kind = PYTHON if node.kind.startswith(PYTHON) else node.kind
        if kind in SIDE_EFFECTS:
            self._flow.stops.append(
                Stop(len(self._flow.nodes), kind, node.source, block)
            )
        if kind == "prim::SetAttr":
            self._flow.store(node)

    @staticmethod
    def _passes_through(node: Node) -> bool:
        """True if a node returns its input tensors, possibly in a list or tuple."""
        kind = node.kind
        return (
            kind in GUARDS
            or kind.startswith(NOT_OPERATORS)
            or hands_on(kind, node.outputs)
        )

    def _operator(self, node: Node, block: tuple[int, ...]) -> None:
        if self._numbers.computes(node):
            self._plan.numbers.add((node.kind, node.source))
            return
        index = self._flow.add(OPERATOR, node, block)
        self._flow.nodes[index].ran = self._profiled.ran.get(_first_output(node))
        self._add_loose(node, index)

    def _control(self, node: Node, block: tuple[int, ...]) -> None:
        index = self._flow.add(CONTROL, node, block)
        added = self._flow.nodes[index]
        name = _first_output(node)
        added.ran = self._profiled.ran.get(name)
        added.condition = self._flow.condition_of(node)
        self._flow.note_condition(index, node)
        blocks_ran = self._profiled.blocks.get(name, ())
        sides: list[Sequence[FlowNode]] = []
        for inner, ran in zip(node.blocks, blocks_ran or repeat(None)):
            first = len(self._flow.nodes)
            self._enter(inner, node)
            self._nodes(inner.nodes, (*block, index), ran)
            self._flow.leave_block(index, inner.outputs)
            sides.append(self._flow.nodes[first:])
        if self._takes_one_side(added):
            _settle_sides(sides)
        if is_operator(node):
            self._add_loose(node, index)

    def _takes_one_side(self, branch: FlowNode) -> bool:
        """Return whether a branch takes the same side in all runs of the program:
        an attribute decides, or the branch is reached once and an argument's kind
        decides. The value of a tensor may differ each time."""
        if branch.op != "prim::If" or branch.condition is None:
            return False
        if branch.condition.on in _BY_MODULE:
            return True
        around = (self._flow.nodes[index] for index in branch.block)
        return branch.condition.on in _BY_CALLER and all(
            one.op != "prim::Loop" for one in around
        )

    def _enter(self, block: Block, node: Node) -> None:
        """Define the parameters of a block. A block of a loop takes the loop's
        inputs after the first two."""
        for number, value in enumerate(block.params):
            self._flow.define(value.name, value.type)
            if number and number + 1 < len(node.inputs):
                self._flow.alias(value.name, (node.inputs[number + 1],))

    def _add_loose(self, node: Node, index: int) -> None:
        types = tuple([value.type for value in node.outputs])
        known = self._flow.nodes[index].outputs
        types = known if types == known else types  # equal tuples are one object
        layer = self._walked.layers.of.get(id(node))
        name = _first_output(node)
        self._loose.append(
            LooseNode(node.kind, node.source, name, node.line, types, index, layer)
        )


def _settle_sides(sides: Sequence[Sequence[FlowNode]]) -> None:
    """Mark the nodes of a branch's side that did not run, if a node of the other
    side shows that it ran. With gradients no profiled graph is printed, but a
    differentiable graph shows it."""
    shown = [any(node.ran for node in side) for side in sides]
    if shown.count(True) != 1:
        return
    for side, ran in zip(sides, shown):
        for node in side:
            node.ran = node.ran if ran else False


def _first_output(node: Node) -> str:
    if node.outputs:
        return node.outputs[0].name
    return ""
