"""What changed between groups that belong together."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Hashable, Iterable, Sequence

from fusiondoc.comparison.differences import GroupChange, GroupRef, UnfusedChange, speed_change, total
from fusiondoc.comparison.group_match import Cluster, Item, Node, Overlap, nodes_of
from fusiondoc.comparison.places import Places, split_source
from fusiondoc.model.between_groups import GroupNeighbours
from fusiondoc.model.report import Group, Kernel, OpNode, Report


def group_changes(
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
        alike[key] = change if known is None else replace(known, count=known.count + 1)
    return tuple(alike.values())


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
        tuple(group_ref(item.group) for item in cluster.a),
        tuple(group_ref(item.group) for item in cluster.b),
        tuple(_original(node) for node in gone),
        tuple(_original(node) for node in added),
        because,
        speed,
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


def group_ref(group: Group) -> GroupRef:
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
