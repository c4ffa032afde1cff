"""Changes between matched groups, and operators that came outside groups with
them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from fusiondoc.comparison import (
    GroupChange,
    GroupRef,
    SpeedChange,
    UnfusedChange,
    speed_change,
    total,
)
from fusiondoc.comparison.by_lines import boundaries_between, group_ref
from fusiondoc.comparison.group_match import (
    Cluster,
    GroupInstance,
    Overlap,
    PositionedNode,
    nodes_of,
)
from fusiondoc.comparison.positions import Positions, Token, split_source
from fusiondoc.graph.neighbours import GroupNeighbours
from fusiondoc.model.report import Kernel, Report


class GroupChanges:
    """The clusters of groups in which something changed.

    Args: unfused: the changes outside groups. threshold: share by which a median
        time must differ to be called slower or faster.
    """

    def __init__(
        self,
        a: Report,
        b: Report,
        unfused: Sequence[UnfusedChange],
        positions: Positions,
        threshold: float,
    ) -> None:
        self._kernels_a = {kernel.id: kernel for kernel in a.kernels}
        self._kernels_b = {kernel.id: kernel for kernel in b.kernels}
        self._came = [row for row in unfused if row.change == "came"]
        self._positions = positions
        self._threshold = threshold
        self._neighbours = GroupNeighbours(b)
        self._b = b

    def of_all(self, clusters: Sequence[Cluster]) -> tuple[GroupChange, ...]:
        """Return the changes in the order of B; groups that are gone at the end, in
        the order of A."""
        found = []
        for cluster in clusters:
            change = self._of(cluster)
            if change is not None:
                index_in_a = min((item.index for item in cluster.a), default=-1)
                index_in_b = min((item.index for item in cluster.b), default=-1)
                found.append((not cluster.b, index_in_b, index_in_a, change))
        found.sort(key=lambda row: row[:3])
        return _folded(change for *_, change in found)

    def _of(self, cluster: Cluster) -> GroupChange | None:
        if not cluster.a:
            return _made(cluster, ["added"])
        if not cluster.b:
            lost = nodes_of(cluster.a)
            return _made(cluster, ["gone"], because=self._because(cluster, lost))
        overlap = Overlap(nodes_of(cluster.a), nodes_of(cluster.b))
        speed = self._speed(cluster)
        kinds = _kinds(cluster, overlap)
        if speed is not None and speed.change is not None:
            kinds.append(speed.change)
        if not kinds:
            return None
        because: tuple[UnfusedChange, ...] = ()
        if "split" in kinds or "operators" in kinds:
            because = self._because(cluster, overlap.left_a)
        change = _made(cluster, kinds, overlap, because, speed)
        if "split" in kinds and self._b.compiled is not None:
            parts = {item.group.id for item in cluster.b}
            return replace(change, boundaries=boundaries_between(self._b, parts))
        return change

    def _speed(self, cluster: Cluster) -> SpeedChange | None:
        times_a = total(_kernels_of(cluster.a, self._kernels_a))
        times_b = total(_kernels_of(cluster.b, self._kernels_b))
        speed = speed_change(times_a, times_b, self._threshold)
        if speed is not None and other_work(cluster):
            return replace(speed, change=None)
        return speed

    def _because(
        self, cluster: Cluster, lost: Sequence[PositionedNode]
    ) -> tuple[UnfusedChange, ...]:
        """The operators newly outside groups: those that left this group, or others
        between its parts, by the graph or by their lines."""
        between = self._between(cluster.b)
        left = _Left(cluster, lost)
        found = []
        for row in self._came:
            in_graph = (row.op, row.source, row.reason_b) in between
            if in_graph or left.has(row, self._positions.of(1, row.source).token):
                found.append(row)
        return tuple(found[:_MOST_CAUSES])

    def _between(self, parts: Sequence[GroupInstance]) -> set[Hashable]:
        """Operator, source and reason of the rows between two of these groups of
        B."""
        ids = [item.group.id for item in parts[:_MOST_PARTS]]
        found: set[Hashable] = set()
        for number, first in enumerate(ids):
            for second in ids[number + 1 :]:
                rows = self._neighbours.between(first, second)
                found.update((row.op, row.source, row.reason) for row in rows)
        return found


_MOST_CAUSES = 8
_MOST_PARTS = 20
"""Most parts of a split group between which operators are searched for."""


class _Left:
    """Operators that left the groups of a cluster, and the lines of its groups."""

    def __init__(self, cluster: Cluster, nodes: Sequence[PositionedNode]) -> None:
        self._phases = {item.group.phase for item in (*cluster.a, *cluster.b)}
        self._spans = _spans(cluster.b)
        self._ops = {node.op for node in nodes}
        without_line = set()
        for node in nodes:
            if not node.position.aligned:
                without_line.add(node.op)
        self._without_line = without_line
        """Operators without a line, or on a line that only one side has: only their
        names are known."""
        self._at: set[tuple[str, Token | None]] = set()
        for node in nodes:
            self._at.update(
                [(node.op, node.position.token), (node.op, node.user.token)]
            )

    def has(self, row: UnfusedChange, token: Token | None) -> bool:
        """True if an operator outside groups may be one of them, or is on lines of
        the groups."""
        if row.phase not in self._phases and None not in self._phases:
            return False
        if row.op in self._without_line or (
            row.source is None and row.op in self._ops
        ):
            return True
        if (row.op, token) in self._at:
            return True
        file, line, _ = split_source(row.source or row.user_source or "")
        low, high = self._spans.get(file, (0, -1))
        return low <= line <= high


def _spans(items: Sequence[GroupInstance]) -> dict[str, tuple[int, int]]:
    """File -> first and last line of the groups in it, without files of
    formulas."""
    spans: dict[str, tuple[int, int]] = {}
    for node in nodes_of(items):
        if node.strong is None or node.node.source is None:
            continue
        file, line, _ = split_source(node.node.source)
        low, high = spans.get(file, (line, line))
        spans[file] = (min(low, line), max(high, line))
    return spans


def _kernels_of(
    items: Sequence[GroupInstance], known: dict[str, Kernel]
) -> list[Kernel]:
    kernels = []
    for item in items:
        for name in item.group.kernels:
            if name in known:
                kernels.append(known[name])
    return kernels


def _kinds(cluster: Cluster, overlap: Overlap) -> list[str]:
    """How the groups of both sides differ, except for their speed."""
    kinds = []
    if len(cluster.b) > 1:
        kinds.append("split")
    if len(cluster.a) > 1:
        kinds.append("merged")
    if overlap.left_a or overlap.left_b:
        kinds.append("operators")
    elif not kinds and cluster.a[0].types != cluster.b[0].types:
        kinds.append("types")
    return kinds


def _made(
    cluster: Cluster,
    kinds: Sequence[str],
    overlap: Overlap | None = None,
    because: tuple[UnfusedChange, ...] = (),
    speed: SpeedChange | None = None,
) -> GroupChange:
    layers = []
    for item in cluster.b or cluster.a:
        if item.layer is not None:
            layers.append(item.layer)
    return GroupChange(
        tuple(kinds),
        _refs(cluster.a),
        _refs(cluster.b),
        tuple(node.node for node in overlap.left_a) if overlap is not None else (),
        tuple(node.node for node in overlap.left_b) if overlap is not None else (),
        because,
        speed,
        layers=tuple(dict.fromkeys(layers)),
    )


def _folded(changes: Iterable[GroupChange]) -> tuple[GroupChange, ...]:
    """Combine instances of the same groups with the same changes into one
    change."""
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


def other_work(cluster: Cluster) -> bool:
    """True if both sides compute different things, so that their times cannot be
    compared: other operators, or tensors of other sizes or dtypes. Another layout
    of a tensor does not count."""
    if sorted(op for item in cluster.a for op in item.ops) != sorted(
        op for i in cluster.b for op in i.ops
    ):
        return True
    if len(cluster.a) > 1 or len(cluster.b) > 1:
        return False
    return _tensors(cluster.a[0]) != _tensors(cluster.b[0])


def _tensors(item: GroupInstance) -> set[str]:
    tensors = set()
    for text in (*item.inputs, *item.outputs):
        if "(" in text:
            tensors.add(_STRIDES.sub("", text))
    return tensors


_STRIDES = re.compile(r"(, )?strides=\[[^\]]*\]")


def _refs(items: Sequence[GroupInstance]) -> tuple[GroupRef, ...]:
    """The groups of one side of a change, in the order of its report."""
    refs = []
    for item in sorted(items, key=lambda item: item.index):
        refs.append(group_ref(item.group))
    return tuple(refs)
