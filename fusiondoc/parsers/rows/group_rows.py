"""Fusion groups of a run: the same group printed in many dumps is one row.

Two groups are the same when phase, the ordered (op, source) of the body, the input types and the position
among
equal ones in the plan agree. Equal but for the input types, in a later plan: a new specialisation.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Iterable, Iterator, Tuple

from fusiondoc.model.report import Group, OpNode, Segment
from fusiondoc.parsers.evidence import PackedEvidence
from fusiondoc.parsers.facts import CacheInstance, Facts, PlanUse, positions
from fusiondoc.parsers.ir.types import bytes_once, is_tensor
from fusiondoc.parsers.jit.plan import Op, PlanGroup
from fusiondoc.parsers.sources import SourceMap, user_source

Body = Tuple[Op, ...]


@dataclass(eq=False)
class GroupRow:
    group: PlanGroup
    phase: str | None
    rank: int | None
    id: str = ""
    specialisation: int = 1
    first: GroupRow | None = None
    iteration: int | None = None
    fallback: bool = False
    kernels: list[str] = field(default_factory=list)
    lines: array[int] = field(default_factory=positions)
    runs: int | None = None
    segments: tuple[Segment, ...] = ()


class GroupTable:
    """The rows of one stream, in order of first appearance."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.rows: list[GroupRow] = []
        self._rows: dict[tuple[str | None, Body, tuple[str, ...], int], GroupRow] = {}
        self._of_body: dict[Body, list[GroupRow]] = {}
        self._of_graph: dict[bytes, list[GroupRow]] = {}
        self._diff_graphs: list[frozenset[Op]] = []

    def phase_of(self, use: PlanUse) -> str | None:
        """Gradient executors have prim::Autograd* nodes; a plan that re-specialises a group has its phase."""
        plan = use.plan
        if plan.backward:
            return "backward"
        if use.iteration is not None:
            return self.facts.iterations[use.iteration][2]
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

    def add(self, use: PlanUse, phase: str | None, groups: Iterable[PlanGroup]) -> None:
        self._diff_graphs.extend(inner.ops for inner in use.plan.diff_graphs)
        seen: dict[tuple[Body, tuple[str, ...]], int] = {}
        before: dict[Body, list[GroupRow]] = {}
        new_of_body: dict[Body, int] = {}
        for group in groups:
            graph = (group.body, group.inputs)
            place = seen.get(graph, 0)
            seen[graph] = place + 1
            key = (phase, group.body, group.inputs, place)
            if group.body not in before:
                before[group.body] = [r for r in self._of_body.get(group.body, ()) if r.first is None]
            row = self._rows.get(key)
            if row is None:
                row = GroupRow(group, phase, self.facts.rank)
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
                row.iteration = self.facts.iterations[use.iteration][0]
            row.lines.extend(use.places(group.line))

    def rows_of(self, phase: str | None, groups: Iterable[PlanGroup]) -> Iterator[tuple[PlanGroup, GroupRow]]:
        """The rows of the groups of a plan, given as they were added."""
        seen: dict[tuple[Body, tuple[str, ...]], int] = {}
        for group in groups:
            graph = (group.body, group.inputs)
            place = seen.get(graph, 0)
            seen[graph] = place + 1
            yield group, self._rows[(phase, *graph, place)]

    def of_graph(self, graph: PlanGroup | None) -> list[GroupRow]:
        """Rows of which ``graph`` is the body: equal groups share one GraphCache."""
        if graph is None:
            return []
        return self._of_graph.get(graph.canonical, [])

    def of_cache(self, cache: CacheInstance | None) -> list[GroupRow]:
        return self.of_graph(cache.graph) if cache is not None else []

    def count_runs(self) -> None:
        """How often each group ran. Equal groups share a count: each has its part of it, unless one stands
        in a branch and may run less often than the others."""
        if "kernel_cache" not in self.facts.levels:
            return
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
                row.runs = (row.runs or 0) + total // len(rows)
        for row in uncertain:
            row.runs = None


def finished(row: GroupRow, files: list[str], sources: SourceMap) -> Group:
    """The row as the report has it."""
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
        runs=row.runs,
        kernels=tuple(row.kernels),
        bytes_in=_bytes(group.inputs),
        bytes_out=_bytes(group.outputs),
        fallback=row.fallback,
        rank=row.rank,
        evidence=PackedEvidence(row.lines, files),
        iteration=row.iteration,
        segments=row.segments,
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
