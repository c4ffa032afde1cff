"""Groups as the report has them: with their run counts, kernels, segments and
bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from fusiondoc.model.group_runs import GroupRuntime, GuardMiss
from fusiondoc.model.groups import Wiring
from fusiondoc.model.report import Group, Instance, Kernel, OpNode, Segment
from fusiondoc.model.source import SourceMap, user_source
from fusiondoc.parsers.ir.types import bytes_once, holds_tensor, is_tensor
from fusiondoc.parsers.jit.plan import Op
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.group_rows import GroupRow, GroupTable, Member, Runs
from fusiondoc.parsers.rows.guard_misses import guard_misses

MOST_VALUES = 1_000
"""Number of inputs, and of outputs, of a node that a report lists: a large
differentiable graph has some hundred."""


MOST_INSTANCES = 20_000
"""Number of fusion nodes in plans that a group lists: a model of many equal blocks
has some hundred."""

MOST_OPERATORS = 10_000
"""Number of operators that a group lists: the largest groups have some hundred."""


class RunOfGroups(NamedTuple):
    """Facts about the groups of one stream that come from other lines than their
    plans: runs, kernels, segments. Keys are group ids or instances."""

    runs: Runs
    kernels: Sequence[Kernel]
    run_by: Mapping[Member, Sequence[str]]
    """Instance -> ids of its kernels."""
    segments: Mapping[str, tuple[Segment, ...]]
    runtimes: Mapping[str, tuple[GroupRuntime, ...]]
    left_out: Mapping[str, int]
    """Id of a group -> number of kernels that are not listed."""
    fell_back: AbstractSet[str]


def group_rows(
    table: GroupTable, run: RunOfGroups, files: list[str], sources: SourceMap
) -> list[Group]:
    """Return the groups as the report has them. Their rows in the table drop what
    the report holds now, since there can be very many rows."""
    kernels: dict[str, list[str]] = {}
    for kernel in run.kernels:
        for group in kernel.groups:
            kernels.setdefault(group, []).append(kernel.id)
    before: dict[str, GroupRow] = {}
    shared = _Shared(sources)
    rows = []
    for row in table.rows:
        misses = tuple(_misses(row, before))
        rows.append(
            _finished(
                row, table, run, kernels.get(row.id, ()), misses, files, shared
            )
        )
    for row in table.rows:
        del row.group, row.members
    return rows


class _Shared:
    """Operators and instances of groups, equal ones once: most are in several
    groups."""

    def __init__(self, sources: SourceMap) -> None:
        self._sources = sources
        self._nodes: dict[Op, OpNode] = {}
        self._instances: dict[tuple[Instance, ...], tuple[Instance, ...]] = {}

    def node(self, operator: Op) -> OpNode:
        known = self._nodes.get(operator)
        if known is None:
            lines = user_source(*operator, self._sources)
            known = self._nodes[operator] = OpNode(*operator, lines)
        return known

    def instances(self, made: tuple[Instance, ...]) -> tuple[Instance, ...]:
        return self._instances.setdefault(made, made)


def _misses(row: GroupRow, before: dict[str, GroupRow]) -> Iterator[GuardMiss]:
    """Yield the differences between the inputs of a specialisation and those of the
    first one and of the one before it. ``before``: id of each first specialisation
    -> the latest one so far."""
    if row.first is None:
        return
    last = before.get(row.first.id, row.first)
    before[row.first.id] = row
    for earlier in dict.fromkeys((row.first.id, last.id)):
        other = row.first if earlier == row.first.id else last
        yield from guard_misses(
            earlier,
            other.group.inputs[:MOST_VALUES],
            row.group.inputs[:MOST_VALUES],
        )


def _finished(
    row: GroupRow,
    table: GroupTable,
    run: RunOfGroups,
    kernels: Sequence[str],
    misses: tuple[GuardMiss, ...],
    files: list[str],
    shared: _Shared,
) -> Group:
    group = row.group
    layer = _only_layer(row.first)
    return Group(
        id=row.id,
        kind=group.kind,
        name=group.name,
        phase=row.phase,
        specialisation=row.specialisation,
        respecialises=row.first.id if row.first is not None else None,
        nodes=tuple(map(shared.node, group.body[:MOST_OPERATORS])),
        inputs=group.inputs[:MOST_VALUES],
        outputs=group.outputs[:MOST_VALUES],
        values_left_out=beyond_the_most(group.inputs, group.outputs),
        runs=run.runs.of_group.get(row.id),
        kernels=tuple(kernels),
        kernels_left_out=run.left_out.get(row.id, 0),
        bytes_in=_bytes(group.inputs),
        bytes_out=_bytes(group.outputs),
        fallback=row.id in run.fell_back,
        rank=table.facts.rank,
        evidence=PackedEvidence(row.lines, files),
        iteration=row.iteration,
        segments=run.segments.get(row.id, ()),
        runtimes=run.runtimes.get(row.id, ()),
        guard_misses=misses,
        instances=shared.instances(
            tuple(
                Instance(
                    one.layer or layer,
                    tuple(run.run_by.get(one, ())),
                    run.runs.of_member.get(one),
                )
                for one in row.members[:MOST_INSTANCES]
            )
        ),
        nodes_left_out=max(0, len(group.body) - MOST_OPERATORS),
        instances_left_out=max(0, len(row.members) - MOST_INSTANCES),
        wiring=group.wiring if len(group.body) <= MOST_OPERATORS else Wiring(),
    )


def beyond_the_most(*values: Sequence[str]) -> int:
    """Return the number of values that a report does not list."""
    return sum(max(0, len(these) - MOST_VALUES) for these in values)


def _only_layer(first: GroupRow | None) -> str | None:
    """Return the layer of a group that is specialised again; None if its instances
    are in several layers."""
    layers = {one.layer for one in first.members} if first is not None else set()
    if len(layers) == 1:
        return layers.pop()
    return None


def _bytes(types: Iterable[str]) -> int | None:
    """Return the bytes of the tensors among these types; None if a size or a type
    is not known."""
    total = 0
    for text in types:
        if not text or (holds_tensor(text) and not is_tensor(text)):
            return None
        if is_tensor(text):
            size = bytes_once(text)
            if size is None:
                return None
            total += size
    return total
