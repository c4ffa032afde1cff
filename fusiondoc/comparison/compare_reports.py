"""Compares two reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from fusiondoc.comparison import (
    Comparison,
    KernelChange,
    ModelSpeedChange,
    Side,
    speed_change,
)
from fusiondoc.comparison.by_lines import (
    groups_by_lines,
    of_two_compilers,
    without_those,
)
from fusiondoc.comparison.differences import differences, passes_differ
from fusiondoc.comparison.finding_changes import fallback_changes, finding_changes
from fusiondoc.comparison.group_changes import GroupChanges, other_work
from fusiondoc.comparison.group_match import Cluster, GroupInstance, items_of, match
from fusiondoc.comparison.kernel_changes import Clusters, kernel_changes
from fusiondoc.comparison.kernel_match import content
from fusiondoc.comparison.notes import notes
from fusiondoc.comparison.positions import Positions
from fusiondoc.comparison.relatedness import nothing_in_common
from fusiondoc.comparison.unfused_changes import unfused_changes
from fusiondoc.model.report import Report

LEAST_APART_MS = 0.05
"""Passes that differ by less are the same: two runs of one program on an H200
(torch 2.1.2) had medians of 0.141 and 0.112 ms over a hundred passes each. The
spread within one process does not show variations between processes."""

SLOWER_THAN = 0.1
"""10 %: the launches of one kernel differ that much from run to run."""


def compare(a: Report, b: Report, slower_than: float = SLOWER_THAN) -> Comparison:
    """The changes from ``a`` to ``b``.

    Args: slower_than: share by which a median time must differ to be called slower
        or faster.
    """
    b = _apart(b)
    positions = Positions(a, b)
    clusters = _clusters(a, b, positions)
    on_both_sides = []
    for cluster in clusters:
        if cluster.a and cluster.b:
            on_both_sides.append(cluster)
    kernels, kernels_same = _kernels(a, b, clusters, slower_than)
    unfused = unfused_changes(a, b, positions)
    by_lines = groups_by_lines(a, b)
    groups = without_those(
        GroupChanges(a, b, unfused, positions, slower_than).of_all(clusters),
        by_lines,
    )
    moved = 0
    for one in by_lines:
        if one.kind != "one":
            moved += one.a.instances
    same_groups = {}
    for cluster in on_both_sides:
        same_groups[cluster.a[0].group.id] = cluster.b[0].group.id
    return Comparison(
        a=_side(a),
        b=_side(b),
        slower_than=slower_than,
        differences=differences(a, b),
        groups=groups,
        unfused=unfused,
        fallbacks=fallback_changes(a, b, same_groups),
        kernels=kernels,
        findings=finding_changes(a, b, positions),
        speed=_model_speed(a, b, slower_than),
        groups_same=a.fusion_groups
        - moved
        - sum(len(change.a) * change.count for change in groups),
        kernels_same=kernels_same,
        notes=notes(a, b),
        by_lines=by_lines,
        unrelated=nothing_in_common(a, b, bool(on_both_sides)),
        reports=(a, b),
    )


def _apart(b: Report) -> Report:
    """Return the report with its rows copied: rows of A and B are distinguished by
    identity, and a report made from the other one by ``dataclasses.replace`` shares
    them."""
    return replace(
        b,
        kernels=tuple(map(copy, b.kernels)),
        fallbacks=tuple(map(copy, b.fallbacks)),
    )


def _clusters(a: Report, b: Report, positions: Positions) -> list[Cluster]:
    items_a = items_of(a.groups, partial(positions.of, 0))
    items_b = items_of(b.groups, partial(positions.of, 1))
    kernels_of: dict[int, dict[str, Any]] = {}
    """id() of an item -> the kernels of its side by id, without their numbers."""
    for report, items in ((a, items_a), (b, items_b)):
        contents = {kernel.id: content(kernel) for kernel in report.kernels}
        kernels_of.update((id(item), contents) for item in items)

    def content_of(item: GroupInstance) -> Any:
        group, kernels = item.group, kernels_of[id(item)]
        used = Counter(kernels[name] for name in group.kernels if name in kernels)
        return (group.instances[0].runs, group.fallback, frozenset(used.items()))

    return match(items_a, items_b, content_of)


def _kernels(
    a: Report, b: Report, clusters: Sequence[Cluster], slower_than: float
) -> tuple[tuple[KernelChange, ...], int]:
    """The changes of kernels, and the number of equal ones. Kernels of two
    compilers cannot be matched."""
    if of_two_compilers(a, b):
        return (), 0
    count_launches = not passes_differ(a, b)
    return kernel_changes(
        a.kernels, b.kernels, _numbered(clusters), slower_than, count_launches
    )


def _numbered(clusters: Sequence[Cluster]) -> Clusters:
    """The clusters, keyed by their index."""
    found = Clusters({}, {}, set(), set())
    for number, cluster in enumerate(clusters):
        found.of_a.update((item.group.id, number) for item in cluster.a)
        found.of_b.update((item.group.id, number) for item in cluster.b)
        if not cluster.a or not cluster.b:
            found.one_sided.add(number)
        elif other_work(cluster):
            found.other_work.add(number)
    return found


def _side(report: Report) -> Side:
    return Side(
        report.target.name or "?",
        report.environment.get("torch"),
        report.fuser.effective,
        report.fusion_groups,
        len(report.kernels),
        len(report.unfused),
        len(report.fallbacks),
        report.coverage,
    )


def _model_speed(
    a: Report, b: Report, threshold: float
) -> tuple[ModelSpeedChange, ...]:
    """The timed ways (eager, fused) that became slower or faster."""
    before = {}
    for s in a.speed:
        if s.passes > 1:
            before[(s.way, s.phase, s.inputs)] = s
    found = []
    for speed in b.speed:
        other = before.get((speed.way, speed.phase, speed.inputs))
        if other is None or speed.passes < 2:
            continue
        if abs(other.ms.median - speed.ms.median) < LEAST_APART_MS:
            continue
        change = speed_change(other.ms, speed.ms, threshold)
        if change is not None and change.change is not None:
            found.append(
                ModelSpeedChange(speed.way, speed.phase, speed.inputs, change)
            )
    return tuple(found)
