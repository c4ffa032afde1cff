"""Two reports to one comparison."""

from __future__ import annotations

from collections import Counter
from typing import Any, Sequence

from fusiondoc.comparison.differences import Comparison, ModelSpeedChange, Side
from fusiondoc.comparison.finding_changes import fallback_changes, finding_changes
from fusiondoc.comparison.group_changes import group_changes, other_work
from fusiondoc.comparison.group_match import Cluster, match
from fusiondoc.comparison.items import Item, items_of
from fusiondoc.comparison.kernel_changes import kernel_changes
from fusiondoc.comparison.kernel_match import content
from fusiondoc.comparison.notes import notes, passes_differ
from fusiondoc.comparison.places import Places
from fusiondoc.comparison.settings import differences
from fusiondoc.comparison.speed_change import speed_change
from fusiondoc.comparison.unfused_changes import unfused_changes
from fusiondoc.model.report import Report

LEAST_APART_MS = 0.05
"""Passes that differ by less are the same: two runs of one program on an H200 (torch 2.1.2) had medians of
0.141 and 0.112 ms over a hundred passes each. The spread in one process does not show what the host does in
another."""

SLOWER_THAN = 0.1
"""10 %: what launches of one kernel differ by from run to run."""


def compare(a: Report, b: Report, slower_than: float = SLOWER_THAN) -> Comparison:
    """What changed from ``a`` to ``b``.

    Args:
        slower_than: share by which a median time must differ to be called slower or faster.
    """
    places = Places(a, b)
    kernels = {k.id: k for k in a.kernels}, {k.id: k for k in b.kernels}
    clusters = _clusters(a, b, places)
    numbers = _numbers(clusters, 0), _numbers(clusters, 1)
    one_sided = {number for number, c in enumerate(clusters) if not c.a or not c.b}
    other = {number for number, c in enumerate(clusters) if c.a and c.b and other_work(c)}
    changed_kernels, kernels_same = kernel_changes(
        a.kernels, b.kernels, numbers, one_sided, other, slower_than, count_launches=not passes_differ(a, b)
    )
    unfused = unfused_changes(a, b, places)
    groups = group_changes(clusters, kernels, unfused, places, slower_than)
    changed = sum(len(change.a) * change.count for change in groups)
    same_groups = {c.a[0].group.id: c.b[0].group.id for c in clusters if c.a and c.b}
    return Comparison(
        a=_side(a),
        b=_side(b),
        slower_than=slower_than,
        differences=differences(a, b),
        groups=groups,
        unfused=unfused,
        fallbacks=fallback_changes(a, b, same_groups),
        kernels=changed_kernels,
        findings=finding_changes(a, b, places),
        speed=_model_speed(a, b, slower_than),
        groups_same=a.fusion_groups - changed,
        kernels_same=kernels_same,
        notes=notes(a, b),
    )


def _clusters(a: Report, b: Report, places: Places) -> list[Cluster]:
    known = {0: {k.id: k for k in a.kernels}, 1: {k.id: k for k in b.kernels}}
    items = items_of(a, 0, places), items_of(b, 1, places)
    of_a = {id(item) for item in items[0]}

    def what(item: Item) -> Any:
        side = 0 if id(item) in of_a else 1
        group = item.group
        used = Counter(content(known[side][name]) for name in group.kernels if name in known[side])
        return (group.instances[0].runs, group.fallback, frozenset(used.items()))

    return match(items[0], items[1], what)


def _numbers(clusters: Sequence[Cluster], side: int) -> dict[str, int]:
    return {
        item.group.id: number
        for number, cluster in enumerate(clusters)
        for item in (cluster.b if side else cluster.a)
    }


def _side(report: Report) -> Side:
    return Side(
        str(report.target.get("name") or "?"),
        report.environment.get("torch"),
        report.fuser.effective,
        report.fusion_groups,
        len(report.kernels),
        len(report.unfused),
        len(report.fallbacks),
        report.coverage,
    )


def _model_speed(a: Report, b: Report, threshold: float) -> tuple[ModelSpeedChange, ...]:
    """The timed ways (eager, fused) that became slower or faster."""
    before = {(s.way, s.phase, s.inputs): s for s in a.speed if s.passes > 1}
    found = []
    for speed in b.speed:
        other = before.get((speed.way, speed.phase, speed.inputs))
        if other is None or speed.passes < 2:
            continue
        if abs(other.ms.median - speed.ms.median) < LEAST_APART_MS:
            continue
        change = speed_change(other.ms, speed.ms, threshold)
        if change is not None and change.change is not None:
            found.append(ModelSpeedChange(speed.way, speed.phase, speed.inputs, change))
    return tuple(found)
