"""Tensor operators outside every group, each with the reason that the log
states."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Protocol

from fusiondoc.model.reasons import NotKnown, NotOptimised, Unprofiled
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Unfused
from fusiondoc.model.source import SourceMap, users_lines
from fusiondoc.parsers.facts import Facts, PlanLevel, PlanUse
from fusiondoc.parsers.jit import NO_WORK
from fusiondoc.parsers.jit.flow import Flow, FlowNode
from fusiondoc.parsers.jit.plan import Flows, LooseNode, Op
from fusiondoc.parsers.jit.statements import (
    Alike,
    Further,
    Statement,
    Statements,
    best_of,
    telling,
)
from fusiondoc.parsers.rows.group_rows import Copies, PhasedPlan
from fusiondoc.parsers.rows.row_of_node import NO_ROW, OUTER, RowOfNode
from fusiondoc.parsers.rows.row_totals import RowTotals
from fusiondoc.parsers.rows.shared_operators import RanPlans
from fusiondoc.parsers.rows.stated_reasons import StatedReasons
from fusiondoc.parsers.rows.tallies import BoundedRows, CountedRow, by_log

NO_REASON = "FD299"
GAVE_UP = "FD304"
NOT_YET = "FD103"
NO_RULE = "FD233"
NEVER_RAN = "FD232"

LEGACY_PLAN = "After compileSpec optimizations:"
"""The line that the legacy executor prints
(torch/csrc/jit/runtime/graph_executor.cpp): it fuses inside differentiable graphs
before they have executors, which then change nothing in them."""


class Outside(NamedTuple):
    """An operator outside every group, with the facts that determine its reason."""

    node: LooseNode
    flow: Flow
    fuser: str | None
    refused: Mapping[int, Reason]
    """Index of a node that the fuser never takes, with any neighbours -> the reason
    that the log states."""
    unseen: bool
    """True if no fusion pass was run on this graph."""
    gradients: bool
    """True if gradients were recorded in the runs of this graph."""
    release: str | None = None
    """The release of torch, from lines of the log."""
    region_end: FlowNode | None = None
    """In the plan of a differentiable graph's executor: the node in the outer plan
    that takes the graph's only result. Set if this operator makes that result and
    no other node takes it."""


class WorkOut(Protocol):
    """Finds reasons that the log does not state."""

    def __call__(self, outside: Outside) -> Reason | None:
        """Return a reason that the log does not state, from the nodes around an
        operator."""

    def refine(self, outside: Outside, stated: Reason) -> Reason:
        """Return the true cause for a stated reason that names several causes, or
        the wrong one."""

    def kept_out(
        self, flow: Flow, fuser: str | None, reasons: Mapping[int, str]
    ) -> Mapping[int, AbstractSet[int]]:
        """Return the nodes that each node keeps out of groups. ``reasons``: codes
        by node index."""


class UnfusedRows(NamedTuple):
    """The unfused operators of one stream as the report has them, and the row of
    each node."""

    rows: list[Unfused]
    row_of: RowOfNode
    left_out: int
    """Number of rows above the limit; they are counted in rows without a source."""


def unfused_of(
    facts: Facts,
    plans: Sequence[PhasedPlan],
    copies: Mapping[int, Sequence[Copies]],
    fuser: str | None,
    work_out: WorkOut | None,
    names: tuple[list[str], SourceMap],
    most: int,
    first: int = 0,
) -> UnfusedRows:
    """Return the tensor operators outside the groups of the plans of one stream.

    Args:
        copies: number of executors with each plan (by the id of its use).
        fuser: the fuser of this stream, if it is known.
        names: names of the log files, and the user's lines of operators.
        most: number of rows with a source position.
        first: index of the first row in the report.
    """
    stated = StatedReasons(plans, facts.unplanned)
    table = _UnfusedTable(facts, fuser, work_out, copies, BoundedRows(most), stated)
    table.add_plans(plans)
    row_of = table.row_of
    row_of.settle(lambda number: first + table.rows.index_of(number))
    return UnfusedRows(table.finished(*names, first), row_of, table.rows.left_out)


_UNKNOWN = Reason.of(NO_REASON, NotKnown("log"))
_NEVER_RAN = Reason.of(NEVER_RAN, Unprofiled("never_ran"))
_GIVEN_UP = Reason.of(GAVE_UP, NotOptimised("gave_up"), stated=True)
_NO_PLAN_YET = Reason.of(NOT_YET, NotOptimised("no_plan_yet"))

ABOUT_A_MERGE = ("FD207", "FD216", "FD218", "FD220")
"""Codes of statements about joining one group, which do not concern the operator
itself."""


class _FlowsOnDemand:
    """The flows of a plan. The executor's print of a plan that its fusion pass left
    needs none."""

    def __init__(self, use: PlanUse) -> None:
        self._use = use

    @cached_property
    def _flows(self) -> Flows:
        return self._use.flows()

    def of(self, part: int) -> Flow | None:
        """Return the flow of the plan's own graph (OUTER) or of one of its
        differentiable graphs."""
        if part == OUTER:
            return self._flows.outer
        return self._flows.inner[part]

    def size_of(self, part: int) -> int:
        """Return the number of nodes of the same; 0 if it has no flow."""
        if part == OUTER:
            return self._use.traits.nodes
        flow = self.of(part)
        if flow is None:
            return 0
        return len(flow.nodes)


class _Part(NamedTuple):
    """A plan, or a differentiable graph inside it, whose operators are counted."""

    use: PlanUse
    phase: str | None
    number: int
    """OUTER, or the index of the differentiable graph."""
    nodes: Sequence[LooseNode]
    flows: _FlowsOnDemand
    """The flows of the plan."""
    given: Reason | None
    """The reason that follows from the plan itself, for operators for which the log
    states none."""

    @property
    def flow(self) -> Flow | None:
        return self.flows.of(self.number)

    def flow_node(self, node: LooseNode) -> FlowNode | None:
        flow = self.flow
        if flow is None:
            return None
        return flow.nodes[node.node]

    @property
    def of_fusion_pass(self) -> bool:
        return self.use.level == PlanLevel.FUSION_PASS


def _add_lines(
    row: CountedRow, use: PlanUse, node: LooseNode, statements: Sequence[Statement]
) -> None:
    """Add the lines of the log that show the reason: those of the statements, else
    those of the operator."""
    for statement in statements:
        row.add_statement(statement)
    if not any(statement.lines for statement in statements):
        row.lines.extend(use.positions_of(node.line))


class _UnfusedTable:
    """The rows of one stream during counting."""

    def __init__(
        self,
        facts: Facts,
        fuser: str | None,
        work_out: WorkOut | None,
        copies: Mapping[int, Sequence[Copies]],
        rows: BoundedRows,
        stated: StatedReasons,
    ) -> None:
        self._facts = facts
        self._copies = copies
        self._fuser = fuser
        self._work_out = work_out
        self.rows = rows
        self._stated = stated
        self._counted: set[int] = set()
        """Hashes of the operators of ``_without_plan`` that are in plans. A log can
        have a hundred thousand other operators."""
        self._without_plan: set[int] = set()
        """Hashes of operators with statements that belong to no plan."""
        self._numbers: set[Op] = set()
        """Nodes that compute with numbers on the host, from the plan of a fusion
        pass: the executor's print of the same plan can lack the types that show
        it."""
        self._settled: dict[
            tuple[str, str | None, str | None], list[CountedRow]
        ] = {}
        """Rows of the nodes of one line in the first plan that a fusion pass left,
        in order. The executor's print of the same plan has fewer types and adds no
        reason."""
        self._unseen: dict[int, bool] = {}
        """Id of the use of a plan without a fusion pass -> True if gradients were
        certainly recorded."""
        self.row_of = RowOfNode()
        """Holds ``CountedRow.number`` until all rows are counted."""
        self._region_ends: dict[tuple[str, str | None, str], FlowNode | None] = {}
        """Operator, source and value of the result of a differentiable graph -> the
        only node that takes it."""

    def add_plans(self, uses: Sequence[PhasedPlan]) -> None:
        """Add every plan that counts, with its phase."""
        for use, _ in uses:
            if use.level == PlanLevel.FUSION_PASS and use.traits.numbers:
                self._numbers |= use.plan().numbers - use.plan().ops()
        self._mark_unseen(uses)
        self._note_region_ends(uses)
        regions = any(use.traits.diff_graphs for use, _ in uses)
        elsewhere = RanPlans(
            (use.ops(), use.traits.copies) for use, _ in uses if regions
        )
        # Statements about nodes in the part of a plan that was cut off still count.
        cut = []
        for use, _ in uses:
            if not use.traits.complete:
                cut.append(use.stated.get())
        unplanned = [self._facts.unplanned, *cut]
        self._without_plan.update(chain.from_iterable(map(_hashes, unplanned)))
        for use, phase in sorted(uses, key=lambda item: item[0].level):
            self._add_plan(use, phase, elsewhere)
        for statements in unplanned:
            self._add_unplanned(statements)

    def _add_plan(
        self, use: PlanUse, phase: str | None, elsewhere: RanPlans
    ) -> None:
        """Count the operators of a plan, and of its differentiable graphs that have
        no plan of their own."""
        plan, flows = use.plan(), _FlowsOnDemand(use)
        for group in plan.groups:
            self._counted.update(
                self._without_plan.intersection(map(hash, group.body))
            )
        given = _GIVEN_UP if use.simple else None
        self._add_part(_Part(use, phase, OUTER, plan.loose, flows, given))
        not_yet = _NO_PLAN_YET if LEGACY_PLAN not in self._facts.headers else None
        for number, inner in enumerate(plan.diff_graphs):
            if not elsewhere.of_executor(inner):
                self._add_part(
                    _Part(use, phase, number, inner.loose, flows, not_yet)
                )

    def _mark_unseen(self, uses: Sequence[PhasedPlan]) -> None:
        """Mark the plans without a fusion pass: with gradients and without a
        differentiable graph the executor leaves the graph as it is
        (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp). If other graphs
        had a pass, that is the only possible reason; in a log without any pass, all
        fusers may be off."""
        if all(use.level != PlanLevel.EXECUTOR for use, _ in uses):
            return
        trained = any(mark.phase == "backward" for mark in self._facts.iterations)
        passed: set[int] = set()
        for use, _ in uses:
            if use.level == PlanLevel.FUSION_PASS:
                passed.update(use.ops())
        for use, _ in uses:
            traits = use.traits
            if (
                use.level != PlanLevel.EXECUTOR
                or traits.diff_graphs
                or traits.groups
            ):
                continue
            if not passed.isdisjoint(use.ops()):
                continue
            if traits.nodes:
                self._unseen[id(use)] = (
                    trained or traits.profiled_gradients or bool(passed)
                )

    def _note_region_ends(self, uses: Sequence[PhasedPlan]) -> None:
        """Record the node that takes the result of each differentiable graph: the
        plan of the graph's own executor does not show it."""
        for use, _ in uses:
            if not use.traits.diff_graphs:
                continue
            flows = use.flows()
            for inner, flow in zip(use.plan().diff_graphs, flows.inner):
                if (
                    flows.outer is None
                    or flow is None
                    or inner.nested
                    or not inner.loose
                ):
                    continue
                last = inner.loose[-1]
                end = _only_taker(flows.outer, inner.node)
                key = (last.op, last.source, last.value)
                known = self._region_ends.setdefault(key, end)
                if (
                    known is None
                    or end is None
                    or (known.op, known.source) != (end.op, end.source)
                ):
                    self._region_ends[key] = None

    def _add_part(self, part: _Part) -> None:
        """Count the operators of a part of a plan, each in the row of its
        reason."""
        use = part.use
        copies = by_log(self._copies.get(id(use), ()))
        # An executor's optimised graph, where its fusion pass is in the log.
        printed_again = use.level == PlanLevel.EXECUTOR and not copies
        counted = part.nodes
        rows = array("q", [NO_ROW]) * part.flows.size_of(part.number)
        if printed_again:
            counted = [
                node
                for node in counted
                if (node.op, node.source) not in self._numbers
            ]
        hashes = (hash((node.op, node.source)) for node in counted)
        self._counted.update(self._without_plan.intersection(hashes))
        left = self._not_settled(part, counted, rows) if printed_again else counted
        if left:
            self._add_nodes(part, counted, left, copies, rows)
        if rows:
            self.row_of.add_part(use, part.number, rows)

    def _add_nodes(
        self,
        part: _Part,
        counted: Sequence[LooseNode],
        left: Sequence[LooseNode],
        copies: Sequence[Copies],
        rows: array[int],
    ) -> None:
        """Count the nodes of ``counted`` that are ``left``, and store the number of
        each node's row in ``rows``."""
        # If a line has several nodes, the statements of the plan's own pass name
        # each of them.
        own_pass = (
            part.number == OUTER and part.of_fusion_pass and bool(part.use.stated)
        )
        statements = []
        for node in counted:
            statements.append(
                self._stated.about(part.use, part.phase, node, own_pass)
            )
        reasons = [
            self._stated.reason(stated[0]) if stated else None
            for stated in statements
        ]
        refused = self._refused(counted, reasons)
        stated_of = dict(zip(map(id, counted), zip(reasons, statements)))
        totals = RowTotals()
        settled: dict[tuple[str, str | None, str | None], list[CountedRow]] = {}
        for node in left:
            flow_node = part.flow_node(node)
            reason, stated = self._reason(part, refused, node, *stated_of[id(node)])
            ran = flow_node.ran if flow_node is not None else None
            row = self.rows.of((node.op, node.source, part.phase, reason, ran))
            if flow_node is not None:
                rows[node.node] = row.number
            totals.add(node, flow_node, row)
            if part.of_fusion_pass:
                settled.setdefault((node.op, node.source, part.phase), []).append(
                    row
                )
            _add_lines(row, part.use, node, stated)
        totals.enter(copies, self._kept(part.flow, totals.row_of))
        for line, rows_of_line in settled.items():
            self._settled.setdefault(line, rows_of_line)

    def _not_settled(
        self, part: _Part, nodes: Sequence[LooseNode], rows: array[int]
    ) -> Sequence[LooseNode]:
        """Return the nodes that have no row from the print of the fusion pass. The
        rows of the other nodes get their lines as evidence."""
        nth_of_line: Counter[tuple[str, str | None]] = Counter()
        left = []
        for node in nodes:
            row = self._settled_as(node, part.phase, nth_of_line)
            if row is None:
                left.append(node)
                continue
            if rows:
                rows[node.node] = row.number
            if not row.reason.stated:
                row.lines.extend(part.use.positions_of(node.line))
        return left

    # -- reasons that the log states -------------------------------------------------------------------------

    def _refused(
        self, nodes: Sequence[LooseNode], reasons: Sequence[Reason | None]
    ) -> dict[int, Reason]:
        """Return the reasons why the fuser never takes a node, with any neighbours,
        by node index in the flow."""
        refused = {}
        for node, stated in zip(nodes, reasons):
            if stated is not None and stated.code not in ABOUT_A_MERGE:
                refused[node.node] = stated
        return refused

    # -- reasons that are worked out -------------------------------------------------------------------------

    def _reason(
        self,
        part: _Part,
        refused: Mapping[int, Reason],
        node: LooseNode,
        stated: Reason | None,
        statements: Sequence[Statement],
    ) -> tuple[Reason, Sequence[Statement]]:
        """Return the reason of a node, which the log may state, and the statements
        that show it."""
        flow, flow_node = part.flow, part.flow_node(node)
        if flow_node is not None and flow_node.ran is False:
            return _NEVER_RAN, statements
        if flow is None or self._work_out is None:
            return stated or part.given or _UNKNOWN, statements
        outside = self._outside(part, refused, node, flow)
        if stated is not None:
            return self._stated.one_of_equal(
                self._work_out.refine(outside, stated)
            ), statements
        reason = part.given or self._work_out(outside) or _UNKNOWN
        if reason.code == NO_RULE:
            statements = self._stated.of_kind(node)
            reason = self._stated.reason(statements[0]) if statements else reason
        return self._stated.one_of_equal(reason), statements

    def _outside(
        self,
        part: _Part,
        refused: Mapping[int, Reason],
        node: LooseNode,
        flow: Flow,
    ) -> Outside:
        unseen = self._unseen.get(id(part.use)) if part.number == OUTER else None
        region_end = None
        if part.use.traits.of_region:
            region_end = self._region_ends.get((node.op, node.source, node.value))
        return Outside(
            node,
            flow,
            self._fuser,
            refused,
            unseen is not None,
            bool(unseen),
            self._facts.release,
            region_end,
        )

    # -- rows ------------------------------------------------------------------------------------------------

    def _settled_as(
        self,
        node: LooseNode,
        phase: str | None,
        nth_of_line: Counter[tuple[str, str | None]],
    ) -> CountedRow | None:
        """Return the row that a node has from the print of the fusion pass; the
        executor prints that plan again. Nodes of one line are distinguished by
        their order.

        Args: nth_of_line: number of earlier nodes of each line in this plan;
        updated here.
        """
        known = self._settled.get((node.op, node.source, phase))
        if known is None:
            return None
        nth = nth_of_line[node.op, node.source]
        nth_of_line[node.op, node.source] += 1
        if nth < len(known):
            return known[nth]
        return known[0]

    def _kept(
        self, flow: Flow | None, rows: Mapping[int, CountedRow]
    ) -> dict[CountedRow, int]:
        """Return the number of operators that the nodes of each row keep out of
        groups; an operator counts once for each row."""
        kept: dict[CountedRow, set[int]] = {}
        if flow is not None and self._work_out is not None:
            codes = {index: row.reason.code for index, row in rows.items()}
            for barrier, indexes in self._work_out.kept_out(
                flow, self._fuser, codes
            ).items():
                kept.setdefault(rows[barrier], set()).update(indexes)
        return {row: len(indexes) for row, indexes in kept.items()}

    def _add_unplanned(self, statements: Statements) -> None:
        """Count operators that were refused in a pass whose plan is not in the log,
        or not complete."""
        for (op, source), about in statements.items():
            position = _position(source)
            if hash((op, position)) in self._counted or op in NO_WORK:
                continue
            best = best_of(about)
            if not best or not best[0].tensor or op.startswith("prim::profile"):
                continue
            statement = best[0]
            row = self.rows.of(
                (op, position, None, self._stated.reason(statement), None)
            )
            row.count.rest += statement.count
            row.add_statement(statement)

        if statements.further:
            known = self._counted.union(map(hash, statements))
            for alike, more in sorted(
                statements.further.items(), key=lambda item: telling(item[0].code)
            ):
                self._add_further(alike, more, known)

    def _add_further(self, alike: Alike, more: Further, known: set[int]) -> None:
        """Count nodes beyond those with an own statement each. Nodes that are in
        rows already (``known`` has their hashes) are left out."""
        if (
            not alike.tensor
            or alike.op in NO_WORK
            or alike.op.startswith("prim::profile")
        ):
            return
        if not alike.sourced and hash((alike.op, None)) in self._counted:
            return
        more.nodes -= known
        new = len(more.nodes)
        if not new:
            return
        known.update(more.nodes)
        key = (alike.op, None, None, self._stated.reason(more.statement), None)
        row = self.rows.more(key, new) if alike.sourced else self.rows.of(key)
        row.count.rest += new
        row.add_statement(more.statement)

    def finished(
        self, files: list[str], sources: SourceMap, first: int
    ) -> list[Unfused]:
        """Return the rows as the report has them. This empties the table, since
        there can be very many rows."""
        self._settled.clear()
        made: list[Unfused] = []
        for op, source, phase, row in self.rows.taken():
            layers = row.layers or {}
            lines = users_lines(op, source, sources)
            bytes_moved = None
            if row.moved is not None:
                bytes_moved = row.moved.total or None
            keeps_out = None
            if row.kept is not None:
                keeps_out = row.kept.total or None
            made.append(
                Unfused(
                    op=op,
                    source=source,
                    user_source=lines[0] if len(lines) == 1 else None,
                    phase=phase,
                    count=row.count.total,
                    ran=row.ran,
                    reason=row.reason,
                    evidence=row.evidence(files),
                    rank=self._facts.rank,
                    bytes_moved=bytes_moved,
                    layers=tuple(layers),
                    layer_counts=tuple(tally.total for tally in layers.values()),
                    keeps_out=keeps_out,
                    called_from=lines if len(lines) > 1 else (),
                    index=first + len(made),
                )
            )
        return made


def _position(source: str | None) -> str | None:
    """Return the "source" of a node in ``Statements``; None for the name of a
    value."""
    if source is not None and source.startswith("%"):
        return None
    return source


def _hashes(statements: Statements) -> Iterator[int]:
    """Yield the hashes of the nodes that statements are about."""
    for op, source in statements:
        yield hash((op, _position(source)))
    for alike, more in statements.further.items():
        yield hash((alike.op, None))
        yield from more.nodes


def _only_taker(flow: Flow, index: int) -> FlowNode | None:
    """Return the only node in the same block that takes the only result of a node;
    None for several and for none."""
    node = flow.nodes[index]
    if len(node.outputs) != 1 or len(node.after) != 1:
        return None
    (taker,) = node.after
    if flow.nodes[taker].block == node.block:
        return flow.nodes[taker]
    return None
