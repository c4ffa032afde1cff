"""Tensor operators outside every group, each with the reason that the log states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from fusiondoc.model.reasons import NotKnown, NotOptimised, Unprofiled
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Unfused
from fusiondoc.model.source import SourceMap, user_source
from fusiondoc.parsers.facts import Facts, PlanLevel, PlanUse
from fusiondoc.parsers.jit import NO_WORK
from fusiondoc.parsers.jit.flow import Flow, FlowNode
from fusiondoc.parsers.jit.plan import LooseNode, Op
from fusiondoc.parsers.jit.statements import Alike, Further, Statement, Statements, best_of, telling
from fusiondoc.parsers.rows.executors import RanPlans
from fusiondoc.parsers.rows.group_rows import Copies, PhasedPlan
from fusiondoc.parsers.rows.row_totals import RowTotals
from fusiondoc.parsers.rows.tallies import BoundedRows, CountedRow, by_log

NO_REASON = "FD299"
GAVE_UP = "FD304"
NOT_YET = "FD103"
NO_RULE = "FD233"
_OF_A_KIND = ("FD201", "FD211")
"""Statements that a fuser has no rule for a kind of node, where that is so."""
NEVER_RAN = "FD232"

LEGACY_PLAN = "After compileSpec optimizations:"
"""What the legacy executor prints (torch/csrc/jit/runtime/graph_executor.cpp): it fuses inside differentiable
graphs before they have executors, which change nothing in them any more."""


class Outside(NamedTuple):
    """An operator outside every group, with the facts that its reason follows from."""

    node: LooseNode
    flow: Flow
    fuser: str | None
    refused: Mapping[int, Reason]
    """Index of a node that the fuser does not take, whatever its neighbours are -> the reason that the log
    states."""
    unseen: bool
    """No fusion pass looked at this graph."""
    gradients: bool
    """Gradients were recorded in the runs of this graph."""
    release: str | None = None
    """The release of torch by the log's own lines."""
    region_end: FlowNode | None = None
    """In the plan of a differentiable graph's executor: the node that takes its only result in the plan
    around it, where this operator makes that result and one operator alone takes it."""


class WorkOut(Protocol):
    """Works out reasons that no log states."""

    def __call__(self, outside: Outside) -> Reason | None:
        """A reason that the log does not state, from the nodes around an operator."""

    def refine(self, outside: Outside, stated: Reason) -> Reason:
        """The true cause behind a stated reason that names several, or the wrong one."""

    def kept_out(
        self, flow: Flow, fuser: str | None, reasons: Mapping[int, str]
    ) -> Mapping[int, AbstractSet[int]]:
        """The nodes that each node keeps out of groups. ``reasons``: codes by node index."""


RowOfNode = Mapping[FlowNode, int]
"""An operator in the flow of its plan -> ``Unfused.index`` of its row."""


class UnfusedRows(NamedTuple):
    """The unfused operators of one stream as the report has them, and the row of each node."""

    rows: list[Unfused]
    row_of: RowOfNode
    left_out: int
    """Rows beyond the most, which are counted in those without a source."""


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
    """Tensor operators outside the groups of the plans of one stream.

    Args:
        copies: how many executors have each plan (by the id of its use).
        fuser: at work in this stream, if that is known.
        names: of the log files, and the user's lines of operators.
        most: rows with a source position.
        first: index of the first row in the report.
    """
    table = _UnfusedTable(facts, fuser, work_out, copies, BoundedRows(most))
    table.add_plans(plans)
    row_of = table.row_of(first)
    return UnfusedRows(table.finished(*names, first), row_of, table.rows.left_out)


_UNKNOWN = Reason.of(NO_REASON, NotKnown("log"))
_NEVER_RAN = Reason.of(NEVER_RAN, Unprofiled("never_ran"))
_GIVEN_UP = Reason.of(GAVE_UP, NotOptimised("gave_up"), stated=True)
_NO_PLAN_YET = Reason.of(NOT_YET, NotOptimised("no_plan_yet"))

_Stated = dict[Op, list[Statement]]

ABOUT_A_MERGE = ("FD207", "FD216", "FD218", "FD220")
"""Statements about joining one group, not about the operator itself."""


class _PlanPart(NamedTuple):
    """A plan, or a differentiable graph inside it, whose operators are counted."""

    use: PlanUse
    phase: str | None
    flow: Flow | None
    given: Reason | None
    refused: Mapping[int, Reason]

    def flow_node(self, node: LooseNode) -> FlowNode | None:
        return self.flow.nodes[node.node] if self.flow is not None else None


def _add_lines(row: CountedRow, use: PlanUse, node: LooseNode, statements: Sequence[Statement]) -> None:
    """The lines of the log that show the reason: the statements', else the operator's own."""
    for statement in statements:
        row.add_statement(statement)
    if not any(statement.lines for statement in statements):
        row.lines.extend(use.places(node.line))


class _UnfusedTable:
    """The rows of one stream while they are counted."""

    def __init__(
        self,
        facts: Facts,
        fuser: str | None,
        work_out: WorkOut | None,
        copies: Mapping[int, Sequence[Copies]],
        rows: BoundedRows,
    ) -> None:
        self._facts = facts
        self._copies = {use: by_log(those) for use, those in copies.items()}
        self._fuser = fuser
        self._work_out = work_out
        self.rows = rows
        self._of_phase: dict[str | None, _Stated] = {}
        self._anywhere: _Stated = {}
        self._placed: set[Op] = set()
        self._numbers: set[Op] = set()
        """Nodes that compute with numbers of the host, by the plan of a pass: the executor's print of the
        same plan can lack the types that show it."""
        self._settled: dict[tuple[str, str | None, str | None], list[CountedRow]] = {}
        """Rows of the nodes of one line in the first plan that a fusion pass left, in their order. The
        executor's print of the same plan knows fewer types and adds no reason."""
        self._unseen: dict[Flow, bool] = {}
        """Plans that no fusion pass looked at -> whether gradients were recorded for certain."""
        self._number_of: dict[FlowNode, int] = {}
        """Node -> ``CountedRow.number`` of its row."""
        self._latest_reason = _UNKNOWN
        self._alike: dict[Reason, Reason] = {_UNKNOWN: _UNKNOWN}
        """Equal reasons -> the first of them: there are few."""
        self._region_ends: dict[tuple[str, str | None, str], FlowNode | None] = {}
        """Operator, source and value of the result of a differentiable graph -> the only node that takes
        it."""

    def add_plans(self, uses: Sequence[PhasedPlan]) -> None:
        """Every plan that counts, with its phase."""
        self._index_statements(uses)
        for use, _ in uses:
            if use.level == PlanLevel.FUSION_PASS and use.plan.numbers:
                self._numbers |= use.plan.numbers - use.plan.ops()
        self._mark_unseen(uses)
        self._note_region_ends(uses)
        regions = any(use.plan.diff_graphs for use, _ in uses)
        elsewhere = RanPlans(use.plan.ops() for use, _ in uses if regions)
        for use, phase in sorted(uses, key=lambda item: item[0].level):
            self._add_plan(use, phase, elsewhere)
        self._add_unplanned(self._facts.unplanned)
        for use, _ in uses:
            if not use.plan.complete:
                # Statements about nodes that the cut took hold all the same.
                self._add_unplanned(use.stated)

    def _index_statements(self, uses: Sequence[PhasedPlan]) -> None:
        """Statements by the operator that they are about, of each phase and of all."""
        for use, phase in uses:
            for index in (self._of_phase.setdefault(phase, {}), self._anywhere):
                _enter(index, use.stated)
        _enter(self._anywhere, self._facts.unplanned)

    def _add_plan(self, use: PlanUse, phase: str | None, elsewhere: RanPlans) -> None:
        """Count the operators of a plan, and of its differentiable graphs that have no plan of their own."""
        plan = use.plan
        for group in plan.groups:
            self._placed.update(group.body)
        given = _GIVEN_UP if use.simple else None
        self._add_nodes(use, phase, plan.loose, plan.flow, given)
        not_yet = _NO_PLAN_YET if LEGACY_PLAN not in self._facts.headers else None
        for inner in plan.diff_graphs:
            if not elsewhere.of_executor(inner):
                self._add_nodes(use, phase, inner.loose, inner.flow, not_yet)

    def _mark_unseen(self, uses: Sequence[PhasedPlan]) -> None:
        """Plans that no fusion pass looked at: with gradients and without a differentiable graph the executor
        leaves them as they are (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp). Where other graphs
        had a pass, that is the only reason; in a log without any, every fuser may be off."""
        if all(use.level != PlanLevel.EXECUTOR for use, _ in uses):
            return
        trained = any(mark.phase == "backward" for mark in self._facts.iterations)
        passed = frozenset().union(*(use.plan.ops() for use, _ in uses if use.level == PlanLevel.FUSION_PASS))
        for use, _ in uses:
            plan = use.plan
            bare = use.level == PlanLevel.EXECUTOR and not plan.diff_graphs and not plan.groups
            if plan.flow is not None and bare and not plan.ops() & passed:
                self._unseen[plan.flow] = trained or plan.flow.gradients or bool(passed)

    def _note_region_ends(self, uses: Sequence[PhasedPlan]) -> None:
        """The node behind each differentiable graph: the plan of its own executor does not show it."""
        for use, _ in uses:
            for inner in use.plan.diff_graphs:
                if use.plan.flow is None or inner.flow is None or inner.nested or not inner.loose:
                    continue
                last = inner.loose[-1]
                end = _only_taker(use.plan.flow, inner.node)
                key = (last.op, last.source, last.value)
                known = self._region_ends.setdefault(key, end)
                if known is None or end is None or (known.op, known.source) != (end.op, end.source):
                    self._region_ends[key] = None

    def _add_nodes(
        self,
        use: PlanUse,
        phase: str | None,
        nodes: Iterable[LooseNode],
        flow: Flow | None,
        given: Reason | None,
    ) -> None:
        """Count the operators of a plan, each in the row of its reason.

        Args:
            given: the reason of those for which the log states none, where it follows from the plan itself.
        """
        copies = self._copies.get(id(use), ())
        # The optimised graph of an executor whose fusion pass is in the log.
        printed_again = use.level == PlanLevel.EXECUTOR and not copies
        counted = [node for node in nodes if not printed_again or (node.op, node.source) not in self._numbers]
        statements = self._statements(use, phase, counted, flow)
        part = _PlanPart(use, phase, flow, given, self._refused(counted, statements))
        totals = RowTotals()
        settled: dict[tuple[str, str | None, str | None], list[CountedRow]] = {}
        nth_of_line: Counter[tuple[str, str | None]] = Counter()
        for node, stated in zip(counted, statements):
            self._placed.add((node.op, node.source))
            if printed_again and self._is_settled(part, node, nth_of_line):
                continue
            reason, stated = self._reason(part, node, stated)
            row = self._row(part, node, reason)
            totals.add(node, part.flow_node(node), row)
            if use.level == PlanLevel.FUSION_PASS:
                settled.setdefault((node.op, node.source, phase), []).append(row)
            _add_lines(row, use, node, stated)
        totals.enter(copies, self._kept(flow, totals.row_of))
        for line, rows in settled.items():
            self._settled.setdefault(line, rows)

    # -- reasons that the log states -------------------------------------------------------------------------

    def _statements(
        self, use: PlanUse, phase: str | None, nodes: Sequence[LooseNode], flow: Flow | None
    ) -> list[Sequence[Statement]]:
        """For each node the most telling statement, in all its forms; empty where the log has none."""
        # Statements of its own pass about the nodes of one line name each of them.
        own_pass = flow is use.plan.flow and use.level == PlanLevel.FUSION_PASS and bool(use.stated)
        return [self._statements_of(use, phase, node, own_pass) for node in nodes]

    def _refused(
        self, nodes: Sequence[LooseNode], statements: Sequence[Sequence[Statement]]
    ) -> dict[int, Reason]:
        """Node index in the flow -> why the fuser does not take the node, whatever stands next to it."""
        refused = {}
        for node, stated in zip(nodes, statements):
            if stated and stated[0].code not in ABOUT_A_MERGE:
                refused[node.node] = self._stated(stated[0])
        return refused

    # -- reasons that are worked out -------------------------------------------------------------------------

    def _reason(
        self, part: _PlanPart, node: LooseNode, statements: Sequence[Statement]
    ) -> tuple[Reason, Sequence[Statement]]:
        """The reason of a node, and the statements that show it."""
        flow_node = part.flow_node(node)
        if flow_node is not None and flow_node.ran is False:
            return _NEVER_RAN, statements
        stated = self._stated(statements[0]) if statements else None
        if part.flow is None or self._work_out is None:
            return stated or part.given or _UNKNOWN, statements
        outside = self._outside(part, node, part.flow)
        if stated is not None:
            return self._one_of_equal(self._work_out.refine(outside, stated)), statements
        reason = part.given or self._work_out(outside) or _UNKNOWN
        if reason.code == NO_RULE:
            statements = self._of_kind(node)
            reason = self._stated(statements[0]) if statements else reason
        return self._one_of_equal(reason), statements

    def _outside(self, part: _PlanPart, node: LooseNode, flow: Flow) -> Outside:
        region_end = None
        if part.use.plan.of_region:
            region_end = self._region_ends.get((node.op, node.source, node.value))
        return Outside(
            node,
            flow,
            self._fuser,
            part.refused,
            flow in self._unseen,
            self._unseen.get(flow, False),
            self._facts.release,
            region_end,
        )

    def _one_of_equal(self, reason: Reason) -> Reason:
        """The first of equal reasons: rows are found by it."""
        if reason is not self._latest_reason:
            self._latest_reason = self._alike.setdefault(reason, reason)
        return self._latest_reason

    # -- rows ------------------------------------------------------------------------------------------------

    def _row(self, part: _PlanPart, node: LooseNode, reason: Reason) -> CountedRow:
        flow_node = part.flow_node(node)
        ran = flow_node.ran if flow_node is not None else None
        row = self.rows.of((node.op, node.source, part.phase, reason, ran))
        if flow_node is not None:
            self._number_of[flow_node] = row.number
        return row

    def _is_settled(
        self, part: _PlanPart, node: LooseNode, nth_of_line: Counter[tuple[str, str | None]]
    ) -> bool:
        """Whether the node has a row by the pass's print of the plan. That row gets its line too."""
        row = self._settled_as(node, part.phase, nth_of_line)
        if row is None:
            return False
        flow_node = part.flow_node(node)
        if flow_node is not None:
            self._number_of[flow_node] = row.number
        if not row.reason.stated:
            row.lines.extend(part.use.places(node.line))
        return True

    def _settled_as(
        self, node: LooseNode, phase: str | None, nth_of_line: Counter[tuple[str, str | None]]
    ) -> CountedRow | None:
        """The row that a node has by the pass's print of the plan, which an executor prints once more. Nodes
        of one line are distinguished by their order.

        Args:
            nth_of_line: how many nodes of each line came before in this plan; counted on here.
        """
        known = self._settled.get((node.op, node.source, phase))
        if known is None:
            return None
        nth = nth_of_line[node.op, node.source]
        nth_of_line[node.op, node.source] += 1
        return known[nth] if nth < len(known) else known[0]

    def row_of(self, first: int) -> RowOfNode:
        """The index of each node's row, that of the first row being ``first``."""
        return {node: first + self.rows.index_of(number) for node, number in self._number_of.items()}

    def _stated(self, statement: Statement) -> Reason:
        reason = Reason.of(statement.code, statement.detail, stated=True)
        return self._alike.setdefault(reason, reason)

    def _kept(self, flow: Flow | None, rows: Mapping[int, CountedRow]) -> dict[CountedRow, int]:
        """How many operators the nodes of each row keep out of groups, each counted once a row."""
        kept: dict[CountedRow, set[int]] = {}
        if flow is not None and self._work_out is not None:
            codes = {index: row.reason.code for index, row in rows.items()}
            for barrier, indexes in self._work_out.kept_out(flow, self._fuser, codes).items():
                kept.setdefault(rows[barrier], set()).update(indexes)
        return {row: len(indexes) for row, indexes in kept.items()}

    def _statements_of(
        self, use: PlanUse, phase: str | None, node: LooseNode, own_pass: bool
    ) -> Sequence[Statement]:
        """The most telling statement of the log about a node; first those of its own pass.

        Args:
            own_pass: the statements of its own pass are in the log: no others are about it.
        """
        if node.source is None:
            # Without a source the value's name must do, which holds only inside one pass.
            own = use.stated.of((node.op, "%" + node.value))
            return best_of(own)
        key = (node.op, node.source)
        own = use.stated.of(key)
        if own_pass:
            return best_of([statement for statement in own if statement.is_about(node.value)])
        if own:
            return best_of(own)
        return best_of(self._of_phase.get(phase, {}).get(key, ())) or best_of(self._anywhere.get(key, ()))

    def _of_kind(self, node: LooseNode) -> Sequence[Statement]:
        """Statements about the kind of node on that line: they hold for all of them."""
        about = self._anywhere.get((node.op, node.source), [])
        return best_of([statement for statement in about if statement.code in _OF_A_KIND])

    def _add_unplanned(self, statements: Statements) -> None:
        """Count operators that were refused in a pass whose plan is not in the log, or not whole."""
        for (op, source), about in statements.items():
            position = None if source is not None and source.startswith("%") else source
            if (op, position) in self._placed or op in NO_WORK:
                continue
            best = best_of(about)
            if not best or not best[0].tensor or op.startswith("prim::profile"):
                continue
            statement = best[0]
            row = self.rows.of((op, position, None, self._stated(statement), None))
            row.count.rest += statement.count
            row.add_statement(statement)

        if statements.further:
            known = {hash(op) for op in (*self._placed, *statements)}
            for alike, more in sorted(statements.further.items(), key=lambda item: telling(item[0].code)):
                self._add_further(alike, more, known)

    def _add_further(self, alike: Alike, more: Further, known: set[int]) -> None:
        """Count nodes beyond those that have a statement each, without those that are in rows already (by
        hash)."""
        if not alike.tensor or alike.op in NO_WORK or alike.op.startswith("prim::profile"):
            return
        if not alike.sourced and (alike.op, None) in self._placed:
            return
        more.nodes -= known
        new = len(more.nodes)
        if not new:
            return
        known.update(more.nodes)
        key = (alike.op, None, None, self._stated(more.said), None)
        row = self.rows.more(key, new) if alike.sourced else self.rows.of(key)
        row.count.rest += new
        row.add_statement(more.said)

    def finished(self, files: list[str], sources: SourceMap, first: int) -> list[Unfused]:
        """The rows as the report has them. The table is empty then: there can be very many."""
        self._settled.clear()
        made: list[Unfused] = []
        for op, source, phase, row in self.rows.taken():
            layers = row.layers or {}
            made.append(
                Unfused(
                    op=op,
                    source=source,
                    user_source=user_source(op, source, sources),
                    phase=phase,
                    count=row.count.total,
                    ran=row.ran,
                    reason=row.reason,
                    evidence=row.evidence(files),
                    rank=self._facts.rank,
                    bytes_moved=row.moved.total or None if row.moved is not None else None,
                    layers=tuple(layers),
                    layer_counts=tuple(tally.total for tally in layers.values()),
                    keeps_out=row.kept.total or None if row.kept is not None else None,
                    index=first + len(made),
                )
            )
        return made


def _only_taker(flow: Flow, index: int) -> FlowNode | None:
    """The only node in the same block that takes the only result of a node; None for several and for none."""
    node = flow.nodes[index]
    if len(node.outputs) != 1 or len(node.after) != 1:
        return None
    (taker,) = node.after
    return flow.nodes[taker] if flow.nodes[taker].block == node.block else None


def _enter(index: _Stated, statements: Statements) -> None:
    for key, about in statements.items():
        index.setdefault(key, []).extend(about)
