"""Two reports to one comparison, and what changed between groups that belong together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import partial
from typing import Any

from fusiondoc.comparison import (
    Comparison,
    Difference,
    GroupChange,
    GroupRef,
    ModelSpeedChange,
    Side,
    UnfusedChange,
    speed_change,
    total,
)
from fusiondoc.comparison.finding_changes import (
    Places,
    fallback_changes,
    finding_changes,
    lacks_plans,
    split_source,
    unfused_changes,
)
from fusiondoc.comparison.group_match import Cluster, Item, Node, Overlap, items_of, match, nodes_of
from fusiondoc.comparison.kernel_changes import content, kernel_changes
from fusiondoc.comparison.relatedness import nothing_in_common
from fusiondoc.graph.neighbours import GroupNeighbours
from fusiondoc.model.report import Group, Kernel, OpNode, Report
from fusiondoc.model.runs import KnobState
from fusiondoc.model.source import Options, in_words

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
    b = _apart(b)
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
    groups = _group_changes(clusters, kernels, unfused, places, slower_than, b)
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
        unrelated=nothing_in_common(a, b, any(c.a and c.b for c in clusters)),
        reports=(a, b),
    )


def _apart(b: Report) -> Report:
    """The report with rows of its own: those of A and B are told apart by being other objects, and a report
    made of the other one by ``dataclasses.replace`` shares them."""
    return replace(b, kernels=tuple(map(copy, b.kernels)), fallbacks=tuple(map(copy, b.fallbacks)))


def _clusters(a: Report, b: Report, places: Places) -> list[Cluster]:
    known = {0: {k.id: k for k in a.kernels}, 1: {k.id: k for k in b.kernels}}
    items = (
        items_of(a.groups, partial(places.of, 0)),
        items_of(b.groups, partial(places.of, 1)),
    )
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
        report.target.name or "?",
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


def notes(a: Report, b: Report) -> tuple[str, ...]:
    """Sentences for the end of the report."""
    return tuple(_notes(a, b))


def _notes(a: Report, b: Report) -> Iterator[str]:
    sides = (("A", a), ("B", b))
    for name, report in sides:
        if report.parse.truncated or any(f.code == "FD902" for f in report.findings):
            yield f"{name} is cut off: what it lacks may be what was cut"
        if not report.groups:
            yield f"{name} has no fusion group"
    for name, report, other, against in (("A", a, "B", b), ("B", b, "A", a)):
        if lacks_plans(report, against):
            yield (
                f"whether operators that only {other} shows outside its groups were fused in {name} cannot be"
                f" told: {report.coverage.unknown}"
            )
    timed = [name for name, report in sides if any(k.ms for k in report.kernels) or report.speed]
    if len(timed) == 1:
        yield f"only {timed[0]} has times, so nothing is said about speed"
    elif not timed:
        yield "neither side has times, so nothing is said about speed"
    with_code = [name for name, report in sides if any(k.code for k in report.kernels)]
    if len(with_code) == 1 and a.kernels and b.kernels:
        yield f"only {with_code[0]} has code of kernels (dump cuda_kernel)"
    untied = [name for name, report in sides if report.kernels and not any(k.groups for k in report.kernels)]
    if untied:
        yield f"kernels of {' and '.join(untied)} are assigned to no group: they were matched by their code"
    stated = [name for name, report in sides if any(u.reason.stated for u in report.unfused)]
    if len(stated) == 1 and a.unfused and b.unfused:
        yield f"only {stated[0]} states reasons: a reason may differ because one log has fewer levels"
    if passes_differ(a, b):
        yield f"A ran {_runs(a)} passes and B {_runs(b)}, so launches are not compared"


def passes_differ(a: Report, b: Report) -> bool:
    """Whether both tell how often they ran the model, and not the same."""
    return None not in (_runs(a), _runs(b)) and _runs(a) != _runs(b)


def _runs(report: Report) -> int | None:
    options = report.target.options
    return options.runs if options is not None else None


_NOT_COMPARED = ("executable",)
"""Where an interpreter lies changes nothing."""


def differences(a: Report, b: Report) -> tuple[Difference, ...]:
    """What both sides tell and is not the same; what only one tells of its machine is no difference."""
    found = list(_mapping("environment", a.environment, b.environment, both=True))
    for name in ("requested", "effective", "live"):
        values = (getattr(a.fuser, name), getattr(b.fuser, name))
        if None not in values and values[0] != values[1]:
            found.append(Difference("fuser", name, in_words(values[0]), in_words(values[1])))
    # A log names no knob, whatever was set; a capture names each that was set.
    both = not (_told(a) and _told(b))
    found += _mapping("knob", _knobs(a.knobs), _knobs(b.knobs), both=both)
    if not both:
        found += _mapping("setting", _options(a), _options(b), both=False)
        found += _mapping("setting", a.target.environment_set, b.target.environment_set, both=False)
    return tuple(found)


def _told(report: Report) -> bool:
    return report.target.options is not None


def _options(report: Report) -> dict[str, object]:
    """By name; a knob is compared as a knob."""
    asked = report.target.options
    return {one.name: getattr(asked, one.name) for one in fields(Options) if one.name != "knobs"}


def _knobs(knobs: tuple[KnobState, ...]) -> dict[str, str]:
    return {knob.name: knobin_words(knob) for knob in knobs}


def knobin_words(knob: KnobState) -> str:
    """The value read back, or the one asked for; and whether it does nothing."""
    value = knob.effective if knob.effective is not None else knob.requested
    return f"{value}" + (" (does nothing)" if knob.live is False else "")


def _mapping(kind: str, a: Mapping[str, Any], b: Mapping[str, Any], both: bool) -> Iterator[Difference]:
    for name in dict.fromkeys((*a, *b)):
        if name in _NOT_COMPARED or (both and (name not in a or name not in b)):
            continue
        x, y = in_words(a.get(name)), in_words(b.get(name))
        if x != y:
            yield Difference(kind, name, x, y)


def _group_changes(
    clusters: Sequence[Cluster],
    kernels: tuple[dict[str, Kernel], dict[str, Kernel]],
    unfused: Sequence[UnfusedChange],
    places: Places,
    threshold: float,
    b: Report,
) -> tuple[GroupChange, ...]:
    """The clusters in which something changed, in the order of B (what is gone: of A, at the end)."""
    found = []
    neighbours = GroupNeighbours(b)
    for cluster in clusters:
        change = _change(cluster, kernels, unfused, places, threshold, neighbours)
        if change is not None:
            order = min((item.index for item in cluster.b), default=-1)
            found.append((order < 0, order, min((item.index for item in cluster.a), default=-1), change))
    return _folded(change for *_, change in sorted(found, key=lambda row: row[:3]))


def _folded(changes: Iterable[GroupChange]) -> tuple[GroupChange, ...]:
    """Instances of the same groups that changed alike are one change."""
    alike: dict[Hashable, GroupChange] = {}
    for change in changes:
        ids = tuple(tuple(ref.id for ref in refs) for refs in (change.a, change.b))
        key = (change.kinds, ids, change.ops_gone, change.ops_added)
        known = alike.get(key)
        alike[key] = change if known is None else _with_one_more(known, change)
    return tuple(alike.values())


def _with_one_more(known: GroupChange, change: GroupChange) -> GroupChange:
    layers = tuple(dict.fromkeys(known.layers + change.layers))
    return replace(known, count=known.count + 1, layers=layers)


def _change(
    cluster: Cluster,
    kernels: tuple[dict[str, Kernel], dict[str, Kernel]],
    unfused: Sequence[UnfusedChange],
    places: Places,
    threshold: float,
    neighbours: GroupNeighbours,
) -> GroupChange | None:
    kinds = []
    gone: Sequence[Node] = ()
    added: Sequence[Node] = ()
    speed = None
    if not cluster.a:
        kinds.append("added")
    elif not cluster.b:
        kinds.append("gone")
    else:
        if len(cluster.b) > 1:
            kinds.append("split")
        if len(cluster.a) > 1:
            kinds.append("merged")
        overlap = Overlap(nodes_of(cluster.a), nodes_of(cluster.b))
        gone, added = overlap.left_a, overlap.left_b
        if gone or added:
            kinds.append("operators")
        elif len(cluster.a) == len(cluster.b) == 1 and cluster.a[0].types != cluster.b[0].types:
            kinds.append("types")
        times = [
            total([known[id_] for item in items for id_ in item.group.kernels if id_ in known])
            for items, known in zip((cluster.a, cluster.b), kernels)
        ]
        speed = speed_change(times[0], times[1], threshold)
        if speed is not None and other_work(cluster):
            speed = replace(speed, change=None)
        if speed is not None and speed.change is not None:
            kinds.append(speed.change)
    if not kinds:
        return None
    lost = gone if cluster.b else nodes_of(cluster.a)
    because: tuple[UnfusedChange, ...] = ()
    if set(kinds) & {"split", "operators", "gone"}:
        because = _because(cluster, lost, unfused, places, neighbours)
    return GroupChange(
        tuple(kinds),
        _refs(cluster.a),
        _refs(cluster.b),
        tuple(_original(node) for node in gone),
        tuple(_original(node) for node in added),
        because,
        speed,
        layers=tuple(dict.fromkeys(i.layer for i in cluster.b or cluster.a if i.layer is not None)),
    )


def other_work(cluster: Cluster) -> bool:
    """Whether both sides do not compute the same, so that their times say nothing: other operators, or
    tensors of other sizes or dtypes. The layout of a tensor is no other work."""
    if sorted(op for item in cluster.a for op in item.ops) != sorted(op for i in cluster.b for op in i.ops):
        return True
    if len(cluster.a) > 1 or len(cluster.b) > 1:
        return False
    return _tensors(cluster.a[0]) != _tensors(cluster.b[0])


def _tensors(item: Item) -> set[str]:
    return {_STRIDES.sub("", text) for text in (*item.inputs, *item.outputs) if "(" in text}


_STRIDES = re.compile(r"(, )?strides=\[[^\]]*\]")


def _original(node: Node) -> OpNode:
    return node.node


def _refs(items: Sequence[Item]) -> tuple[GroupRef, ...]:
    """The groups of one side of a change, in the order of its report."""
    return tuple(_group_ref(item.group) for item in sorted(items, key=lambda item: item.index))


def _group_ref(group: Group) -> GroupRef:
    """What a comparison tells of a group."""
    return GroupRef(
        group.id,
        group.name,
        group.kind,
        group.phase,
        group.specialisation,
        group.nodes,
        group.inputs,
        group.outputs,
        group.kernels,
        next(iter(group.evidence), None),
        group.count,
    )


def _because(
    cluster: Cluster,
    gone: Sequence[Node],
    unfused: Sequence[UnfusedChange],
    places: Places,
    neighbours: GroupNeighbours,
) -> tuple[UnfusedChange, ...]:
    """What came outside the groups: the operators that left this one, or others between its parts, by the
    graph or by their lines."""
    left = {(node.op, token) for node in gone for token in (node.place.token, node.user.token)}
    names = {node.op for node in gone if not node.place.aligned}
    phases = {item.group.phase for item in cluster.a + cluster.b}
    spans = _spans(cluster.b)
    ids = [item.group.id for item in cluster.b[:_MOST_PARTS]]
    between = {
        (row.op, row.source, row.reason)
        for nth, first in enumerate(ids)
        for second in ids[nth + 1 :]
        for row in neighbours.between(first, second)
    }
    found = []
    for row in unfused:
        if row.change == "came" and (row.op, row.source, row.reason_b) in between:
            found.append(row)
            continue
        if row.change != "came" or row.reason_b is None or (row.phase not in phases and None not in phases):
            continue
        file, line, _ = split_source(row.source or row.user_source or "")
        low, high = spans.get(file, (0, -1))
        # A line that only one side has, or none at all, leaves the name of the operator.
        by_name = row.op in names or (row.source is None and row.op in {op for op, _ in left})
        if by_name or (row.op, places.of(1, row.source).token) in left or low <= line <= high:
            found.append(row)
    return tuple(found)[:_MOST_CAUSES]


_MOST_CAUSES = 8
_MOST_PARTS = 20
"""Of a group that was split, between which it is looked for what stands there."""


def _spans(items: Sequence[Item]) -> dict[str, tuple[int, int]]:
    """File -> first and last line of the groups in it, files of formulas left out."""
    spans: dict[str, tuple[int, int]] = {}
    for node in nodes_of(list(items)):
        if node.strong is None or node.node.source is None:
            continue
        file, line, _ = split_source(node.node.source)
        low, high = spans.get(file, (line, line))
        spans[file] = (min(low, line), max(high, line))
    return spans
