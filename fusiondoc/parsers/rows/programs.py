"""The distinct plans of a run as small graphs for a picture: groups, nodes outside
groups, tensor edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import NamedTuple

from fusiondoc.model.reasons import Condition
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.reasons.words_of_parts import condition_words
from fusiondoc.model.report import Program, ProgramNode, Unfused
from fusiondoc.model.source import SourceMap, user_source
from fusiondoc.parsers.facts import Facts, PlanLevel, PlanUse
from fusiondoc.parsers.jit.flow import GROUP, OPERATOR, REGION, Flow, FlowNode
from fusiondoc.parsers.jit.plan import Flows, Plan, PlanGroup, hashed
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.finished_groups import MOST_VALUES, beyond_the_most
from fusiondoc.parsers.rows.group_rows import GroupTable, PhasedPlan
from fusiondoc.parsers.rows.row_of_node import OUTER, RowOfNode
from fusiondoc.parsers.rows.shared_operators import RanPlans

MOST_NODES = 3_000
"""Number of nodes of all programs together: a larger picture is of no use, and
memory stays bounded."""

MOST_EDGES = 20_000
"""Number of edges of all programs together: a program has about as many edges as
nodes."""

_FEW = 200
"""Number of plans up to which each is compared with each; above it only equal plans
are found."""


_ON_A_VALUE = Condition("tensor_value")


class PlansOfStream(NamedTuple):
    """The groups of one stream, with their plans, and the row of each operator
    outside them."""

    groups: GroupTable
    row_of: RowOfNode
    rows: Sequence[Unfused]
    first: int
    """``Unfused.index`` of the first of ``rows``."""

    @property
    def facts(self) -> Facts:
        return self.groups.facts

    def row(self, use: PlanUse, part: int, node: int) -> Unfused | None:
        """Return the row of an operator outside groups, by its index in a part of a
        plan; None for other nodes."""
        index = self.row_of.of(use, part, node)
        if index is None:
            return None
        return self.rows[index - self.first]


class ProgramRows(NamedTuple):
    rows: tuple[Program, ...]
    left_out: int
    """Number of distinct plans that are not in ``rows``."""


def programs_of(
    streams: Iterable[PlansOfStream], files: Sequence[str], sources: SourceMap
) -> ProgramRows:
    """Return the programs of all streams, in order of appearance."""
    table = _ProgramTable(files, sources)
    for stream in streams:
        table.add(stream)
    return table.finished()


class _ProgramTable:
    def __init__(self, files: Sequence[str], sources: SourceMap) -> None:
        self._files = files
        self._sources = sources
        self._programs: list[Program] = []
        self._seen: dict[int, int] = {}
        """Hash of a program's content -> its index, or -1 if it was left out."""
        self._shapes: dict[int, int] = {}
        """Hash of the operators and groups of a program without their types ->
        number of programs with them."""
        self._nodes = 0
        self._edges = 0

    def add(self, stream: PlansOfStream) -> None:
        """Add the plans of one stream."""
        shown = list(_distinct(stream.groups.plans))
        regions = any(use.traits.diff_graphs for use, _ in shown)
        elsewhere = RanPlans(
            (use.ops(), use.traits.copies) for use, _ in shown if regions
        )
        made = []
        for plan in shown:
            made.append((plan.use, self._index_of(plan, stream, elsewhere)))
        if regions:
            self._tie_regions(made)

    def finished(self) -> ProgramRows:
        return ProgramRows(
            tuple(self._programs), sum(index < 0 for index in self._seen.values())
        )

    def _index_of(
        self, shown: PhasedPlan, stream: PlansOfStream, elsewhere: RanPlans
    ) -> int:
        """Return the index of the program of this plan; -1 for none."""
        (use, phase), facts = shown, stream.facts
        nodes_of_flow = use.traits.nodes
        if not nodes_of_flow:
            return -1
        rows = (stream.row(use, OUTER, node) for node in range(nodes_of_flow))
        why = tuple(_why(row) for row in rows if row is not None)
        key = hash((phase, use.content(), why))
        index = self._seen.get(key)
        if index is not None:
            if index >= 0 and facts.rank is not None:
                self._add_rank(index, facts.rank, _rows_of(use, elsewhere, stream))
            return index
        left = MOST_NODES - self._nodes
        if left < min(nodes_of_flow, MOST_NODES):
            self._seen[key] = -1
            return -1
        drawing = _Drawing(
            self, shown, stream, elsewhere, left, MOST_EDGES - self._edges
        )
        nodes = drawing.nodes
        self._nodes += len(nodes)
        edges = drawing.edges
        self._edges += len(edges)
        plan = use.plan()
        shape = hash(
            (
                phase,
                tuple(g.body for g in plan.groups),
                tuple((n.op, n.source) for n in plan.loose),
            )
        )
        nth = self._shapes[shape] = self._shapes.get(shape, 0) + 1
        self._seen[key] = len(self._programs)
        iteration = None
        if use.iteration is not None:
            iteration = facts.iterations[use.iteration].index
        self._programs.append(
            Program(
                id=f"P{len(self._programs) + 1}",
                phase=phase,
                specialisation=nth,
                iteration=iteration,
                ranks=() if facts.rank is None else (facts.rank,),
                nodes=tuple(nodes),
                edges=tuple(edges),
                cut=drawing.cut,
                values_left_out=drawing.values_left_out,
                edges_left_out=drawing.edges_left_out,
                waits=tuple(drawing.waits),
                stops=tuple(dict.fromkeys(drawing.stops)),
            )
        )
        return len(self._programs) - 1

    def _add_rank(self, index: int, rank: int, rows: Iterable[int | None]) -> None:
        """Record that another rank has the plan: add the rank, and the rows of its
        nodes."""
        program = self._programs[index]
        if rank in program.ranks:
            return
        nodes = []
        for node, row in zip(program.nodes, chain(rows, repeat(None))):
            if row is None:
                nodes.append(node)
            else:
                nodes.append(replace(node, rows=(*node.rows, row)))
        ranks = tuple(sorted((*program.ranks, rank)))
        self._programs[index] = replace(program, ranks=ranks, nodes=tuple(nodes))

    def _tie_regions(self, made: Sequence[tuple[PlanUse, int]]) -> None:
        """Set, for each region, the program that the region's own executor made."""
        drawn = []
        for use, index in made:
            if index >= 0:
                drawn.append((use, index, use.ops()))
        for use, index, _ in drawn:
            program = self._programs[index]
            nodes = list(program.nodes)
            others = [(other, ops) for _, other, ops in drawn if other != index]
            for inner in use.plan().diff_graphs:
                if (
                    inner.nested
                    or inner.node >= len(nodes)
                    or not inner.loose
                    or not others
                ):
                    continue
                inside = hashed(inner.ops)
                best, ops = max(others, key=lambda other: len(inside & other[1]))
                if len(inside & ops) * 2 > len(inner.loose):
                    nodes[inner.node] = replace(
                        nodes[inner.node], program=self._programs[best].id
                    )
            self._programs[index] = replace(program, nodes=tuple(nodes))

    def user_source(self, op: str, source: str | None) -> str | None:
        return user_source(op, source, self._sources)

    def evidence(self, use: PlanUse, line: int) -> PackedEvidence:
        """Return the position of a line of the plan in its first print."""
        return PackedEvidence([next(iter(use.positions_of(line)))], self._files)


class _Drawing:
    """The nodes and edges of one plan, and of its differentiable graphs that have
    no plan of their own."""

    def __init__(
        self,
        owner: _ProgramTable,
        shown: PhasedPlan,
        stream: PlansOfStream,
        elsewhere: RanPlans,
        most: int,
        most_edges: int,
    ) -> None:
        self.nodes: list[ProgramNode] = []
        self.edges: list[tuple[int, int]] = []
        """In order."""
        self.waits: list[tuple[int, int]] = []
        self.stops: list[tuple[int, int | None]] = []
        self.edges_left_out = 0
        """Number of edges beyond ``most_edges``."""
        self.cut = 0
        """Number of nodes beyond ``most``."""
        self.values_left_out = 0
        self._most = most
        self._most_edges = most_edges
        self._owner = owner
        self._use = shown.use
        self._stream = stream
        plan = shown.use.plan()
        rows = stream.groups.rows_of_use(shown.use)
        self._ids = {}
        for group, row in zip(plan.every_group(), rows):
            self._ids[id(group)] = row.id
        for graph in _graphs(plan, shown.use.flows(), elsewhere):
            self._add(graph)

    def _add(self, graph: _Graph) -> None:
        start = len(self.nodes)
        flow = graph.flow
        shown = self._most - start
        self.cut += max(0, len(flow.nodes) - shown)
        ids = {group.node: self._ids[id(group)] for group in graph.groups}
        for node in flow.nodes[:shown]:
            inside = start + node.block[-1] if node.block else graph.region
            first = _maker_of_first_operand(node)
            drawn_first = None
            if first is not None and first < shown:
                drawn_first = start + first
            row = self._stream.row(self._use, graph.part, node.index)
            drawn = self._drawn(node, row, ids.get(node.index), inside, drawn_first)
            takes = []
            for maker, result in node.takes:
                if maker < shown:
                    takes.append((start + maker, result))
            given = tuple(_given(node, start, shown)) if node.kind == GROUP else ()
            self.nodes.append(
                replace(drawn, takes=tuple(takes)[:MOST_VALUES], given=given)
            )
            self._add_edges(flow, node, start, shown)
        for stop in flow.stops:
            if stop.before < shown:
                inside = start + stop.block[-1] if stop.block else graph.region
                self.stops.append((start + stop.before, inside))
        pairs = ((a + start, b + start) for a, b in flow.waits if max(a, b) < shown)
        self.waits += islice(pairs, max(0, self._most_edges - len(self.waits)))

    def _drawn(
        self,
        node: FlowNode,
        row: Unfused | None,
        group: str | None,
        inside: int | None,
        first: int | None,
    ) -> ProgramNode:
        """Return the node as the report has it; ``inside`` and ``first`` are
        indexes in the program."""
        tensors = node.kind in (OPERATOR, REGION)
        inputs = node.inputs if tensors else ()
        outputs = node.outputs if tensors else ()
        self.values_left_out += beyond_the_most(inputs, outputs)
        condition = None
        if node.condition is not None:
            condition = condition_words(node.condition)
        return ProgramNode(
            kind=node.kind,
            op=node.op,
            source=node.source,
            user_source=self._owner.user_source(node.op, node.source),
            inputs=inputs[:MOST_VALUES],
            outputs=outputs[:MOST_VALUES],
            group=group,
            reason=row.reason.code if row is not None else None,
            reason_text=row.reason.text if row is not None else None,
            inside=inside,
            condition=condition,
            program=None,
            evidence=self._owner.evidence(self._use, node.line),
            first=first,
            first_result=node.operands[0].result if first is not None else None,
            rows=() if row is None or row.index is None else (row.index,),
        )

    def _add_edges(
        self, flow: Flow, node: FlowNode, start: int, shown: int
    ) -> None:
        """Add the edges from a node to those of the first ``shown`` nodes that take
        its result."""
        takers = flow.takers(node.index, shown)
        if node.decides:
            takers = {*takers, *_decided(flow, node, shown)}
        left = self._most_edges - len(self.edges)
        drawn = sorted(takers)[:left] if left else []
        self.edges += [(start + node.index, start + taker) for taker in drawn]
        self.edges_left_out += len(takers) - len(drawn)


def _maker_of_first_operand(node: FlowNode) -> int | None:
    """Return the index of the node that makes an operator's first operand; None if
    there is no such node."""
    if node.kind == OPERATOR and node.operands:
        return node.operands[0].by
    return None


def _given(
    node: FlowNode, start: int, shown: int
) -> Iterator[tuple[int, int] | None]:
    """Yield, for each input of a node, the index of the node that makes it and the
    index of the result; None if unknown."""
    for one in node.operands:
        if one.by is None or one.result is None or one.by >= shown:
            yield None
        else:
            yield start + one.by, one.result


class _Graph(NamedTuple):
    """A graph of a plan that is drawn."""

    part: int
    """OUTER, or the index of the differentiable graph."""
    flow: Flow
    groups: Sequence[PlanGroup]
    region: int | None
    """Index of the node in the outer graph that contains this graph."""


def _graphs(plan: Plan, flows: Flows, elsewhere: RanPlans) -> Iterator[_Graph]:
    """Yield the graph of the plan, and the differentiable graphs that hold groups
    or whose executor printed no plan."""
    if flows.outer is None:
        return
    yield _Graph(OUTER, flows.outer, plan.groups, None)
    for part, (inner, flow) in enumerate(zip(plan.diff_graphs, flows.inner)):
        if flow is not None and (inner.groups or not elsewhere.of_executor(inner)):
            yield _Graph(
                part, flow, inner.groups, inner.node if inner.node >= 0 else None
            )


def _why(row: Unfused) -> tuple[Reason, bool | None]:
    """Return the part of a row's identity other than its line."""
    return row.reason, row.ran


def _rows_of(
    use: PlanUse, elsewhere: RanPlans, stream: PlansOfStream
) -> Iterator[int | None]:
    """Yield the index of the row of each node that is drawn."""
    for graph in _graphs(use.plan(), use.flows(), elsewhere):
        for node in range(len(graph.flow.nodes)):
            yield stream.row_of.of(use, graph.part, node)


def _decided(flow: Flow, node: FlowNode, most: int) -> Iterator[int]:
    """Yield the branches and loops that depend on a value in the node's result, not
    only on its size or type."""
    for control in node.decides:
        if control < most and flow.nodes[control].condition == _ON_A_VALUE:
            yield control


def _distinct(plans: Sequence[PhasedPlan]) -> Iterator[PhasedPlan]:
    """Yield the plans without those prints of an executor whose plan a fusion pass
    printed before: they have fewer types."""
    if all(use.level == PlanLevel.FUSION_PASS for use, _ in plans):
        yield from plans
        return
    of_passes = {
        use.ops() for use, _ in plans if use.level == PlanLevel.FUSION_PASS
    }
    few = of_passes if len(of_passes) <= _FEW else ()
    for plan in plans:
        use = plan.use
        if (
            use.level == PlanLevel.FUSION_PASS
            or use.traits.diff_graphs
            or use.simple
        ):
            yield plan
            continue
        ops = use.ops()
        if ops not in of_passes and not any(ops <= known for known in few):
            yield plan
