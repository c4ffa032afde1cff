"""Fusion groups of a run: all equal fusion nodes are one row.

Two nodes share a row if kind, phase, the ordered (op, source) of the body and the
input types agree; each is an instance of the row. The executors show which prints
are prints of the same node. The plan of a fallback function holds a new
specialisation of the group that it stands in for, with rows of its own.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.model.source import Source
from fusiondoc.operators import GRADIENTS
from fusiondoc.parsers.facts import Facts, PlanUse, positions, unpack
from fusiondoc.parsers.fuser_work import CacheInstance
from fusiondoc.parsers.jit.plan import GroupGraph, Op, Plan, PlanGroup, hashed
from fusiondoc.parsers.rows.executors import Body, Executor, executors_of
from fusiondoc.parsers.rows.shared_operators import SharedOperators

_Key = tuple[str, "str | None", Body, tuple[str, ...], int]
"""(kind, phase, body, input types, id() of the row that it specialises again)."""


_FORWARD_FORMULAS = frozenset(
    op for op, gradient in GRADIENTS.items() if gradient.only_forward
)
"""Operators that occur in the forward part of torch's formulas (``<string>``) and
never in their backward part: torch/csrc/jit/runtime/symbolic_script.cpp, 1.12 to
2.13."""


class PhasedPlan(NamedTuple):
    """A plan that counts, and its phase."""

    use: PlanUse
    phase: str | None


Share = int | Fraction


class Copies(NamedTuple):
    """The number of executors of a log that have a plan. Executors of further
    processes in that log are not counted."""

    file: int
    """Index of the log."""
    plans: Share
    fallbacks: Share
    """The number in fallback functions: the same operators once more, for other
    types."""


class Member:
    """A fusion node: an instance of a row. A log can have ten thousand."""

    __slots__ = ("canonical", "conditional", "file", "layer")

    def __init__(self, group: PlanGroup, file: int) -> None:
        self.canonical = group.canonical
        self.layer = group.layer
        self.conditional = group.conditional
        self.file = file
        """Index of the log that shows it."""


@dataclass(eq=False, slots=True)
class GroupRow:
    id: str
    group: PlanGroup
    phase: str | None
    specialisation: int = 1
    first: GroupRow | None = None
    iteration: int | None = None
    other_gradients: bool = False
    """True if the group was made again because other gradients were defined."""
    lines: array[int] = field(default_factory=positions)
    members: list[Member] = field(default_factory=list)


def groups_of(
    facts: Facts, plans: Iterable[PlanUse], first: int, lines: int | None = None
) -> GroupTable:
    """Return the groups of the plans of one stream, in order; their ids begin with
    G``first``. ``lines``: number of lines of the log, if it is the only one."""
    table = GroupTable(facts, first)
    plans = list(plans)
    for executor in executors_of(plans, lines, facts.gradients_profiled):
        table.add(executor)
    table.settle(plans)
    return table


class GroupTable:
    """The rows of one stream, in order of first appearance, and the stream's
    plans."""

    def __init__(self, facts: Facts, first: int) -> None:
        self.facts = facts
        self.rows: list[GroupRow] = []
        self.plans: list[PhasedPlan] = []
        self._executors: list[Executor] = []
        self.copies: dict[int, list[Copies]] = {}
        """By the id of a use: one entry for each executor whose print with most
        types is that use."""
        self._first = first
        self._phases: dict[int, str | None] = {}
        self._rows: dict[_Key, GroupRow] = {}
        self._of_body: dict[Body, list[GroupRow]] = {}
        self._of_graph: dict[bytes, list[GroupRow]] = {}
        self._in_graph: set[tuple[bytes, str]] = set()
        """The pairs in ``_of_graph``, with the id of the row, for fast look-up: ten
        thousand rows can have one graph."""
        self._graphs_of: dict[int, tuple[bytes, ...]] = {}
        """Digests of the graphs of a use, by its id."""
        self._of_use: dict[int, list[GroupRow]] = {}
        self._of_plain: dict[int, list[GroupRow]] = {}
        """Rows of the groups of a use, if they are the same for every executor with
        that plan."""
        self._of_print: dict[tuple[int, int], list[GroupRow]] = {}
        """The same for each print of such a plan, by the ids of its use and of the
        use of the executor's first print."""
        self._diff_graphs = SharedOperators()

    def _phase_of(self, use: PlanUse, stands_for: Sequence[Body]) -> str | None:
        """Return the phase of a plan. Executors of gradients have prim::Autograd*
        nodes; a plan that specialises a group again has the phase of that group."""
        traits = use.traits
        if traits.backward:
            return "backward"
        plan = use.plan()
        phase = self._phase_of_code(plan)
        if phase is not None:
            return phase
        if use.iteration is not None:
            return self.facts.iterations[use.iteration].phase
        for body in (*(group.body for group in plan.groups), *stands_for):
            known = self._of_body.get(body)
            if known:
                return known[0].phase
        if traits.users or traits.diff_graphs or self._is_region_of_outer(use):
            return "forward"
        return _phase_by(plan.ops())

    def _phase_of_code(self, plan: Plan) -> str | None:
        """Return the phase that the log states for the code of a plan: a source
        position begins with the name of the code."""
        if not self.facts.phases:
            return None
        for _, text in plan.ops():
            source = Source.parse(text)
            if source is not None and source.file in self.facts.phases:
                return self.facts.phases[source.file]
        return None

    def _is_region_of_outer(self, use: PlanUse) -> bool:
        """True if the plan belongs to the executor of a differentiable graph that
        an outer plan printed."""
        ops = use.ops()
        return self._diff_graphs.most_shared(ops) * 2 > len(ops)

    def add(self, executor: Executor) -> None:
        """Add an executor. Its phase can depend on the groups of earlier
        executors."""
        for printed in executor.prints:
            if id(printed.use) not in self._phases:
                self._phases[id(printed.use)] = self._phase_of(
                    printed.use, executor.stands_for
                )
        self._executors.append(executor)
        rows = self._rows_for(executor)
        self._add_members(executor, rows)
        for printed in executor.prints:
            groups = printed.use.plan().every_group()
            for group, row in zip(
                groups, self._rows_in(printed.use, executor.use, rows)
            ):
                row.lines.append(printed.position(group.line))

    def _add_members(self, executor: Executor, rows: Sequence[GroupRow]) -> None:
        """Add the groups of an executor as instances of its rows, unless they were
        added before."""
        use = executor.use
        seen: Counter[int] = Counter()
        for group, row in zip(use.plan().every_group(), rows):
            shown = executor.known
            if executor.bare:
                seen[id(row)] += 1
                shown = shown or seen[id(row)] <= len(row.members)
            # A fallback function for the same types is no other specialisation, but
            # the same node again.
            again = executor.fallback and row.first is None
            if not shown and not again:
                row.members.append(Member(group, executor.file))
            if use.iteration is not None and row.iteration is None:
                row.iteration = self.facts.iterations[use.iteration].index

    def _rows_for(self, executor: Executor) -> list[GroupRow]:
        """Return the rows of an executor's groups."""
        use = executor.use
        known = self._of_plain.get(id(use)) if not executor.fallback else None
        if known is not None:
            return known
        phase = self._phases[id(use)]
        for inner in use.plan().diff_graphs:
            self._diff_graphs.add(hashed(inner.ops))
        groups = use.plan().every_group()
        self._graphs_of[id(use)] = tuple({group.canonical for group in groups})
        # ``_specialises`` reads ``before`` for these groups only.
        compared = []
        for group in groups:
            if executor.bare or group.kind == "FusionGroup":
                compared.append(group.body)
        before = {body: tuple(self._of_body.get(body, ())) for body in compared}
        rows = []
        for group in groups:
            rows.append(
                self._row(
                    group,
                    phase,
                    executor,
                    before.get(group.body, ()) if before else (),
                )
            )
        if not executor.fallback and not before:
            self._of_plain[id(use)] = rows
        return rows

    def _rows_in(
        self, use: PlanUse, first: PlanUse, rows: list[GroupRow]
    ) -> list[GroupRow]:
        """Return the rows of the groups of a print; ``rows`` are those of the
        executor's first print."""
        known = self._of_print.get((id(use), id(first)))
        if known is not None:
            return known
        groups = use.plan().every_group()
        if use is first:
            mine = rows
        else:
            mine = _matching(groups, first.plan().every_group(), rows)
        self._of_use.setdefault(id(use), mine)
        for group, row in zip(groups, mine):
            # The groups are equal as rows, but their graphs may differ (in the
            # values that they return): each graph has its own GraphCache.
            if (group.canonical, row.id) not in self._in_graph:
                self._in_graph.add((group.canonical, row.id))
                self._of_graph.setdefault(group.canonical, []).append(row)
        if self._of_plain.get(id(first)) is rows:
            self._of_print[id(use), id(first)] = mine
        return mine

    def _row(
        self,
        group: PlanGroup,
        phase: str | None,
        executor: Executor,
        before: Sequence[GroupRow],
    ) -> GroupRow:
        first = self._specialises(group, phase, executor, before)
        if first is not None and (first.group.body, first.group.inputs) == (
            group.body,
            group.inputs,
        ):
            return first
        key = (group.kind, phase, group.body, group.inputs, id(first))
        row = self._rows.get(key)
        if row is None:
            # Names of values mean nothing outside their plan.
            own = group._replace(values=())
            row = GroupRow(f"G{self._first + len(self.rows)}", own, phase)
            if first is not None:
                row.first = first
                row.other_gradients = executor.other_gradients
                row.specialisation = 2 + sum(
                    one.first is first for one in self.rows
                )
            self._rows[key] = row
            self._of_body.setdefault(group.body, []).append(row)
            self.rows.append(row)
        return row

    def _specialises(
        self,
        group: PlanGroup,
        phase: str | None,
        executor: Executor,
        before: Sequence[GroupRow],
    ) -> GroupRow | None:
        """Return the first row of the group that this group specialises for other
        types; None for a new group."""
        if executor.fallback:
            rows = self._rows_stood_for(group, executor)
        elif executor.bare or group.kind == "FusionGroup":
            # Bare prints show no executor, and the legacy fuser's executor makes a
            # plan for each list of input types.
            rows = []
            for row in before:
                if row.phase == phase and row.first is None:
                    rows.append(row)
            if any(row.group.inputs == group.inputs for row in rows):
                return None
        else:
            return None
        return max(
            rows,
            key=lambda row: _alike(row.group.inputs, group.inputs),
            default=None,
        )

    def _rows_stood_for(
        self, group: PlanGroup, executor: Executor
    ) -> Sequence[GroupRow]:
        """Return the first rows that a group of a fallback function may stand in
        for."""
        others = executor.stands_for
        # In a region with several groups, a group stands in for the one with the
        # same body.
        bodies = dict.fromkeys(
            [group.body] if group.body in others else [group.body, *others]
        )
        rows = []
        for body in bodies:
            for row in self._of_body.get(body, ()):
                if row.first is None:
                    rows.append(row)
        if executor.other_gradients:
            return rows
        return _guarded_by_others(group, rows)

    def rows_of(self, plan: PhasedPlan) -> Iterator[tuple[PlanGroup, GroupRow]]:
        """Yield the groups of one of ``plans``, each with its row."""
        return zip(plan.use.plan().every_group(), self.rows_of_use(plan.use))

    def rows_of_use(self, use: PlanUse) -> Sequence[GroupRow]:
        """Return the row of each group of a plan, in the order of
        ``Plan.every_group``."""
        return self._of_use.get(id(use), ())

    def of_graph(self, graph: GroupGraph | None) -> list[GroupRow]:
        """Return the rows whose body is ``graph``: equal groups share one
        GraphCache."""
        if graph is None:
            return []
        return self._of_graph.get(graph.canonical, [])

    def of_cache(self, cache: CacheInstance | None) -> list[GroupRow]:
        if cache is None:
            return []
        return self.of_graph(cache.graph)

    def settle(self, plans: Iterable[PlanUse]) -> None:
        """Finish after all executors were added: nodes that several logs or
        processes show are counted once.

        Logs are parts of one run, so a plan in two of them is the plan of two
        processes, or of two runs of one program. Two GraphCaches for one graph in a
        log mean the same: a process makes one that runs
        (torch/csrc/jit/codegen/cuda/manager.cpp; if its compilation fails it is
        made again).
        """
        caches: Counter[tuple[bytes, int]] = Counter()
        for cache in self.facts.caches:
            if cache.graph is not None and cache.runs:
                caches[cache.graph.canonical, unpack(cache.created)[0]] += 1
        self._count_plans(caches)
        for row in self.rows:
            of_files = _of_one_process(row.members, caches)
            row.members = max(of_files, key=len, default=[])
        self.plans = [PhasedPlan(use, self._phases[id(use)]) for use in plans]
        self._diff_graphs = SharedOperators()
        self._rows.clear()
        self._of_body.clear()
        self._in_graph.clear()
        self._of_plain.clear()
        self._of_print.clear()
        self._executors.clear()
        self._graphs_of.clear()

    def _count_plans(self, caches: Mapping[tuple[bytes, int], int]) -> None:
        of_file: dict[int, list[int]] = {}
        for (_, at), number in caches.items():
            of_file.setdefault(at, []).append(number)
        fewest = {at: min(numbers) for at, numbers in of_file.items()}
        shared: dict[tuple[int, int, bool], Copies] = {}
        processes_of: dict[tuple[int, int], int] = {}
        for executor in self._executors:
            if executor.bare:
                continue
            file, use = executor.file, executor.use
            if executor.known:
                self.copies.setdefault(id(use), [])
                continue
            processes = processes_of.get((id(use), file))
            if processes is None:
                keys = self._graphs_of[id(use)]
                # A plan without groups is counted by the number of processes that
                # share all other plans.
                shares = [caches.get((key, file), 1) for key in keys] or [
                    fewest.get(file, 1)
                ]
                processes = processes_of[id(use), file] = max(shares)
            share: Share = Fraction(1, processes) if processes > 1 else 1
            again = executor.fallback or use.simple
            one = Copies(file, 0 if again else share, share if again else 0)
            one = shared.setdefault((file, processes, again), one)
            self.copies.setdefault(id(use), []).append(one)

    def runs(self) -> Runs:
        """Return how often the groups ran, where the log shows it. Equal groups
        share one count, which is divided evenly over the instances, unless an
        instance is in a branch and may run less often than the others."""
        of_row: dict[str, int | None] = {}
        of_member: dict[Member, int] = {}
        totals = self._runs_of_graphs()
        for canonical, members in self._sharing(totals).items():
            total = totals[canonical]
            each = _runs_of_each(total, [member for _, member in members])
            if each is not None:
                of_member.update((member, each) for _, member in members)
            owners = Counter(row.id for row, _ in members)
            for owner, number in owners.items():
                if len(owners) == 1:
                    runs: int | None = total
                else:
                    runs = each * number if each is not None else None
                known = of_row.get(owner, 0)
                if known is None or runs is None:
                    of_row[owner] = None
                else:
                    of_row[owner] = known + runs
        return Runs(
            {row: number for row, number in of_row.items() if number is not None},
            of_member,
        )

    def _runs_of_graphs(self) -> Mapping[bytes, int]:
        """Return the number of runs of the GraphCaches of each graph; empty if the
        log does not show it."""
        totals: Counter[bytes] = Counter()
        if "kernel_cache" in self.facts.levels:
            for cache in self.facts.caches:
                if cache.graph is not None:
                    totals[cache.graph.canonical] += cache.runs
        return totals

    def _sharing(
        self, totals: Mapping[bytes, int]
    ) -> Mapping[bytes, list[tuple[GroupRow, Member]]]:
        """Return the instances of each graph that is in ``totals``."""
        sharing: dict[bytes, list[tuple[GroupRow, Member]]] = {}
        for row in self.rows:
            for member in row.members:
                if member.canonical in totals:
                    sharing.setdefault(member.canonical, []).append((row, member))
        return sharing


def _runs_of_each(total: int, members: Sequence[Member]) -> int | None:
    """Return the number of runs of each instance that shares a total; None if they
    may differ."""
    uneven = len(members) > 1 and any(member.conditional for member in members)
    if uneven or total % len(members):
        return None
    return total // len(members)


def _of_one_process(
    members: Iterable[Member], caches: Mapping[tuple[bytes, int], int]
) -> list[list[Member]]:
    """Return, for each log, the instances that a single process shows.

    Args:
        caches: number of GraphCaches of each graph in each log: one per process.
    """
    files: dict[int, dict[bytes, list[Member]]] = {}
    for member in members:
        of_graph = files.setdefault(member.file, {})
        of_graph.setdefault(member.canonical, []).append(member)
    shown = []
    for file, of_graph in files.items():
        kept: list[Member] = []
        for canonical, equal in of_graph.items():
            processes = max(1, caches.get((canonical, file), 0))
            kept += equal[: ceil(len(equal) / processes)]
        shown.append(kept)
    return shown


def _phase_by(ops: Iterable[Op]) -> str | None:
    """Return the phase of a plan without source lines of the user, by operators
    that occur in one phase only.

    A graph of AOTAutograd may recompute forward operators in its backward.
    """
    phase = None
    for op, source in ops:
        if op.endswith("_backward"):
            return "backward"
        if (
            source is not None
            and source.startswith("<string>")
            and op in _FORWARD_FORMULAS
        ):
            phase = "forward"
    return phase


class Runs(NamedTuple):
    """The number of runs of groups (by id) and of their instances."""

    of_group: Mapping[str, int]
    of_member: Mapping[Member, int]


def _matching(
    groups: Sequence[PlanGroup],
    others: Sequence[PlanGroup],
    rows: Sequence[GroupRow],
) -> list[GroupRow]:
    """Return the rows of the groups of a print. They are the rows of the plan's
    other print in another order."""
    left: dict[Body, list[GroupRow]] = {}
    for other, row in zip(others, rows):
        left.setdefault(other.body, []).append(row)
    return [left[group.body].pop(0) for group in groups]


def _guarded_by_others(
    group: PlanGroup, rows: Sequence[GroupRow]
) -> Sequence[GroupRow]:
    """Return the rows that the group of a fallback function can stand in for: rows
    of its layer, if there are any; of these the rows for other types, since a group
    with these types would have passed its guard."""
    same_layer = []
    for row in rows:
        if group.layer and _has_layer(row, group.layer):
            same_layer.append(row)
    rows = same_layer or rows
    return [row for row in rows if row.group.inputs != group.inputs] or rows


def _has_layer(row: GroupRow, layer: str) -> bool:
    return any(member.layer == layer for member in row.members)


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of positions at which the types agree."""
    return sum(a == b for a, b in zip(one, other))
