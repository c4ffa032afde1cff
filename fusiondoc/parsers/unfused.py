"""Tensor operators outside every group, each with the reason that the log states."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Iterable

from fusiondoc.model import Reason, Unfused
from fusiondoc.parsers.evidence import PackedEvidence
from fusiondoc.parsers.facts import Facts, PlanUse, Statement, Statements, positions
from fusiondoc.parsers.groups import GroupTable
from fusiondoc.parsers.plan import DiffGraph, LooseNode, Op
from fusiondoc.parsers.rejections import merge
from fusiondoc.parsers.sources import SourceMap, user_source

NO_REASON = "FD299"
GAVE_UP = "FD304"
NOT_YET = "FD103"

_MOST_TELLING = (
    *("FD202", "FD203", "FD206", "FD205", "FD204", "FD201", "FD207"),
    *("FD217", "FD215", "FD212", "FD213", "FD211", "FD214", "FD220", "FD218", "FD219", "FD216"),
)
"""When several things are said of a node, the first of these is its reason: what rules the node out before
what
rules out one merge."""


@dataclass
class _Row:
    count: int
    reason: Reason
    lines: array[int] = field(default_factory=positions)


class UnfusedTable:
    """The rows of one stream."""

    def __init__(self, facts: Facts, groups: GroupTable) -> None:
        self._facts = facts
        self._groups = groups
        self._rows: dict[tuple[str, str | None, str | None, str], _Row] = {}
        self._index: dict[str | None, Statements] = {}
        self._placed: set[Op] = set()

    def add_plans(self, uses: list[tuple[PlanUse, str | None]]) -> None:
        """Every plan that counts, with its phase."""
        everywhere: Statements = {}
        for use, phase in uses:
            copied = {key: dict(codes) for key, codes in use.stated.items()}
            merge(self._index.setdefault(phase, {}), copied)
            merge(everywhere, {key: dict(codes) for key, codes in use.stated.items()})
        merge(everywhere, {key: dict(codes) for key, codes in self._facts.unplanned.items()})
        ran = [use.plan.ops() for use, _ in uses]
        for use, phase in uses:
            for group in use.plan.groups:
                self._placed.update(group.body)
            unspecified = Reason(NO_REASON, "the log does not say why", False)
            if use.simple:
                text = "its guard failed and no specialisation was left, so this copy runs unfused"
                unspecified = Reason(GAVE_UP, text, True)
            self._add_nodes(use, phase, use.plan.loose, everywhere, unspecified)
            waiting = [inner for inner in use.plan.diff_graphs if not _fused_elsewhere(inner, ran)]
            text = "the executor of its differentiable graph made no plan in this log"
            for inner in waiting:
                self._add_nodes(use, phase, inner.loose, everywhere, Reason(NOT_YET, text, False))
        self._add_unplanned()

    def _add_nodes(
        self,
        use: PlanUse,
        phase: str | None,
        nodes: Iterable[LooseNode],
        everywhere: Statements,
        unspecified: Reason,
    ) -> None:
        counts: dict[tuple[str, str | None, str | None, str], int] = {}
        for node in nodes:
            self._placed.add((node.op, node.source))
            said = self._said(use, phase, node, everywhere)
            reason = Reason(said.code, said.text, True) if said is not None else unspecified
            key = (node.op, node.source, phase, reason.code)
            counts[key] = counts.get(key, 0) + 1
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = _Row(0, reason)
            if said is not None:
                row.lines.extend(said.lines)
            else:
                row.lines.extend(array("Q", (line + node.line for line in use.lines)))
        for key, count in counts.items():
            self._rows[key].count = max(self._rows[key].count, count)

    def _said(
        self, use: PlanUse, phase: str | None, node: LooseNode, everywhere: Statements
    ) -> Statement | None:
        if node.source is None:
            # Without a source the value's name must do, which holds only inside one pass.
            return _best(use.stated.get((node.op, "%" + node.value)))
        key = (node.op, node.source)
        for where in (use.stated, self._index.get(phase, {}), everywhere):
            found = _best(where.get(key))
            if found is not None:
                return found
        return None

    def _add_unplanned(self) -> None:
        """What was refused in a pass whose plan is not in the log."""
        for (op, source), codes in self._facts.unplanned.items():
            place = None if source is not None and source.startswith("%") else source
            if (op, place) in self._placed:
                continue
            said = _best(codes)
            if said is None or not said.tensor or op.startswith("prim::profile"):
                continue
            key = (op, place, None, said.code)
            row = self._rows.setdefault(key, _Row(0, Reason(said.code, said.text, True)))
            row.count += len(said.values) or 1
            row.lines.extend(said.lines)

    def finished(self, files: list[str], sources: SourceMap) -> list[Unfused]:
        return [
            Unfused(
                op=op,
                source=source,
                user_source=user_source(op, source, sources),
                phase=phase,
                count=row.count,
                reason=row.reason,
                evidence=PackedEvidence(row.lines, files),
                rank=self._facts.rank,
            )
            for (op, source, phase, _), row in self._rows.items()
        ]


def _best(codes: dict[str, Statement] | None) -> Statement | None:
    if not codes:
        return None
    for code in _MOST_TELLING:
        if code in codes:
            return codes[code]
    return next(iter(codes.values()))


def _fused_elsewhere(inner: DiffGraph, plans: list[frozenset[Op]]) -> bool:
    """Whether some plan in the log is that of the executor of this DifferentiableGraph.

    Its own passes rewrite some operators (dropout, layer_norm), so most of the tensor operators must agree.
    """
    mine = {(n.op, n.source) for n in inner.loose}
    return any(len(mine & plan) * 2 > len(mine) for plan in plans) or not mine
