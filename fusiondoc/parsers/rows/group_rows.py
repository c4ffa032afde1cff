"""Fusion groups of a run: the same group printed in many dumps is one row.

Two groups are the same when phase, the ordered (op, source) of the body, the input types and the position
among equal ones in the plan agree. Equal but for the input types, in a later plan: a new specialisation.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import AbstractSet, Iterable, Iterator, Mapping, NamedTuple, Sequence, Tuple

from fusiondoc.model.report import Group, Kernel, OpNode, Segment
from fusiondoc.parsers.evidence import PackedEvidence
from fusiondoc.parsers.facts import CacheInstance, Facts, PlanUse, positions
from fusiondoc.parsers.ir.types import bytes_once, is_tensor
from fusiondoc.parsers.jit.plan import Op, PlanGroup
from fusiondoc.parsers.user_lines import SourceMap, user_source

Body = Tuple[Op, ...]


class PhasedPlan(NamedTuple):
    """A plan that counts, and the phase that it is of."""

    use: PlanUse
    phase: str | None


@dataclass(eq=False)
class GroupRow:
    id: str
    group: PlanGroup
    phase: str | None
    specialisation: int = 1
    first: GroupRow | None = None
    iteration: int | None = None
    lines: array[int] = field(default_factory=positions)


def groups_of(facts: Facts, plans: Iterable[PlanUse], first: int) -> GroupTable:
    """The groups of the plans of one stream, which count, in order; their ids begin with G``first``."""
    table = GroupTable(facts, first)
    for use in plans:
        table.add(use)
    return table


class GroupTable:
    """The rows of one stream, in order of first appearance, and the plans that they are of."""

    def __init__(self, facts: Facts, first: int) -> None:
        self.facts = facts
        self.rows: list[GroupRow] = []
        self.plans: list[PhasedPlan] = []
        self._first = first
        self._rows: dict[tuple[str | None, Body, tuple[str, ...], int], GroupRow] = {}
        self._of_body: dict[Body, list[GroupRow]] = {}
        self._of_graph: dict[bytes, list[GroupRow]] = {}
        self._diff_graphs: list[frozenset[Op]] = []

    def _phase_of(self, use: PlanUse) -> str | None:
        """Gradient executors have prim::Autograd* nodes; a plan that re-specialises a group has its phase."""
        plan = use.plan
        if plan.backward:
            return "backward"
        if use.iteration is not None:
            return self.facts.iterations[use.iteration].phase
        for group in plan.groups:
            known = self._of_body.get(group.body)
            if known:
                return known[0].phase
        if plan.users or plan.diff_graphs:
            return "forward"
        ops = plan.ops()
        if any(len(ops & inner) * 2 > len(ops) for inner in self._diff_graphs):
            return "forward"  # the executor of a differentiable graph that an outer plan printed
        return None

    def add(self, use: PlanUse) -> None:
        """One more plan. Its phase can depend on the groups of those before it."""
        phase = self._phase_of(use)
        self.plans.append(PhasedPlan(use, phase))
        self._diff_graphs.extend(inner.ops for inner in use.plan.diff_graphs)
        seen: dict[tuple[Body, tuple[str, ...]], int] = {}
        before: dict[Body, list[GroupRow]] = {}
        new_of_body: dict[Body, int] = {}
        for group in use.plan.every_group():
            graph = (group.body, group.inputs)
            place = seen.get(graph, 0)
            seen[graph] = place + 1
            key = (phase, group.body, group.inputs, place)
            if group.body not in before:
                before[group.body] = [r for r in self._of_body.get(group.body, ()) if r.first is None]
            row = self._rows.get(key)
            if row is None:
                row = GroupRow(f"G{self._first + len(self.rows)}", group, phase)
                firsts = [r for r in before[group.body] if r.phase == phase]
                if firsts:
                    nth = new_of_body.get(group.body, 0)
                    new_of_body[group.body] = nth + 1
                    row.first = firsts[min(nth, len(firsts) - 1)]
                    row.specialisation = 2 + sum(r.first is row.first for r in self._of_body[group.body])
                self._rows[key] = row
                self._of_body.setdefault(group.body, []).append(row)
                self.rows.append(row)
            # Equal by the contract, yet the graphs may differ (in what they return): each has its GraphCache.
            rows = self._of_graph.setdefault(group.canonical, [])
            if row not in rows:
                rows.append(row)
            if use.iteration is not None and row.iteration is None:
                row.iteration = self.facts.iterations[use.iteration].index
            row.lines.extend(use.places(group.line))

    def rows_of(self, plan: PhasedPlan) -> Iterator[tuple[PlanGroup, GroupRow]]:
        """The groups of one of ``plans``, each with its row."""
        seen: dict[tuple[Body, tuple[str, ...]], int] = {}
        for group in plan.use.plan.every_group():
            graph = (group.body, group.inputs)
            place = seen.get(graph, 0)
            seen[graph] = place + 1
            yield group, self._rows[(plan.phase, *graph, place)]

    def of_graph(self, graph: PlanGroup | None) -> list[GroupRow]:
        """Rows of which ``graph`` is the body: equal groups share one GraphCache."""
        if graph is None:
            return []
        return self._of_graph.get(graph.canonical, [])

    def of_cache(self, cache: CacheInstance | None) -> list[GroupRow]:
        return self.of_graph(cache.graph) if cache is not None else []

    def runs(self) -> dict[str, int]:
        """Id -> how often the group ran, where the log tells. Equal groups share a count: each has its part,
        unless one stands in a branch and may run less often than the others."""
        runs: dict[str, int] = {}
        if "kernel_cache" not in self.facts.levels:
            return runs
        totals: dict[bytes, int] = {}
        for cache in self.facts.caches:
            if cache.graph is not None:
                totals[cache.graph.canonical] = totals.get(cache.graph.canonical, 0) + cache.runs
        uncertain: list[GroupRow] = []
        for canonical, rows in self._of_graph.items():
            total = totals.get(canonical)
            if total is None:
                continue
            uneven = len(rows) > 1 and any(row.group.conditional for row in rows)
            if uneven or total % len(rows):
                uncertain += rows
            for row in rows:
                runs[row.id] = runs.get(row.id, 0) + total // len(rows)
        for row in uncertain:
            runs.pop(row.id, None)
        return runs


class RunOfGroups(NamedTuple):
    """What the rest of the log tells of the groups of one stream, by id."""

    runs: Mapping[str, int]
    kernels: Sequence[Kernel]
    segments: Mapping[str, tuple[Segment, ...]]
    fell_back: AbstractSet[str]


def group_rows(table: GroupTable, told: RunOfGroups, files: list[str], sources: SourceMap) -> list[Group]:
    """The rows as the report has them."""
    kernels: dict[str, list[str]] = {}
    for kernel in told.kernels:
        for group in kernel.groups:
            kernels.setdefault(group, []).append(kernel.id)
    return [_finished(row, table, told, kernels.get(row.id, ()), (files, sources)) for row in table.rows]


def _finished(
    row: GroupRow,
    table: GroupTable,
    told: RunOfGroups,
    kernels: Sequence[str],
    names: tuple[list[str], SourceMap],
) -> Group:
    files, sources = names
    group = row.group
    return Group(
        id=row.id,
        kind=group.kind,
        name=group.name,
        phase=row.phase,
        specialisation=row.specialisation,
        respecialises=row.first.id if row.first is not None else None,
        nodes=tuple(OpNode(op, source, user_source(op, source, sources)) for op, source in group.body),
        inputs=group.inputs,
        outputs=group.outputs,
        runs=told.runs.get(row.id),
        kernels=tuple(kernels),
        bytes_in=_bytes(group.inputs),
        bytes_out=_bytes(group.outputs),
        fallback=row.id in told.fell_back,
        rank=table.facts.rank,
        evidence=PackedEvidence(row.lines, files),
        iteration=row.iteration,
        segments=told.segments.get(row.id, ()),
    )


def _bytes(types: Iterable[str]) -> int | None:
    """Bytes of the tensors among these types; None if a size is not known."""
    total = 0
    for text in types:
        if is_tensor(text):
            size = bytes_once(text)
            if size is None:
                return None
            total += size
    return total
