"""Compare a TorchScript report with a torch.compile report of one program: find the
groups of B that compute the source lines of each group of A.

The two compilers name operators differently: ``aten::layer_norm`` is ``var_mean``,
``sub``, ``rsqrt`` and more in a compiled graph. So source lines are compared, not
operators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.comparison import GroupByLines, GroupChange, GroupRef
from fusiondoc.model.boundaries import Boundary
from fusiondoc.model.report import Group, OpNode, Report, Unfused
from fusiondoc.model.source import Source, last_name

MOST_BOUNDARIES = 3
"""Most boundaries of a group: those with most bytes."""

_Line = tuple[str, int]
"""Name of a file, and line."""


def groups_by_lines(a: Report, b: Report) -> tuple[GroupByLines, ...]:
    """Compare each group of A that has lines of the program, if one of the two
    reports is of torch.compile."""
    if of_two_compilers(a, b):
        return tuple(_by_lines(a, b))
    return ()


def of_two_compilers(a: Report, b: Report) -> bool:
    """True if exactly one of the two reports is of torch.compile."""
    return (a.compiled is None) != (b.compiled is None)


def without_those(
    changes: Sequence[GroupChange], rows: Sequence[GroupByLines]
) -> tuple[GroupChange, ...]:
    """The changes of groups that no row covers: a row covers its group of A, and
    its groups of B as parts."""
    of_a = {row.a.id for row in rows}
    of_b = set()
    for row in rows:
        for ref in row.b:
            of_b.add(ref.id)
    others = []
    for change in changes:
        if not any(ref.id in of_a for ref in change.a) and (
            change.a or not any(ref.id in of_b for ref in change.b)
        ):
            others.append(change)
    return tuple(others)


def _by_lines(a: Report, b: Report) -> Iterator[GroupByLines]:
    lines_of_b = {group.id: _lines(group.nodes) for group in b.groups}
    for group in a.groups:
        lines = _lines(group.nodes)
        if group.respecialises is not None or not lines:
            continue
        there = []
        for one in b.groups:
            if _is_counterpart(one, group) and lines & lines_of_b[one.id]:
                there.append(one)
        outside = []
        for row in b.unfused:
            if _has_phase(row, group) and lines & _lines([row]):
                outside.append(row)
        yield GroupByLines(
            group_ref(group),
            tuple(map(group_ref, there)),
            tuple(dict.fromkeys(row.op for row in outside)),
            boundaries_between(b, {one.id for one in there}),
        )


def _is_counterpart(other: Group, group: Group) -> bool:
    return other.respecialises is None and _has_phase(other, group)


def _has_phase(other: Group | Unfused, group: Group) -> bool:
    return (other.phase or "forward") == (group.phase or "forward")


def _lines(nodes: Iterable[OpNode | Unfused]) -> AbstractSet[_Line]:
    """The nodes' lines in the program; formulas of gradients have none."""
    lines = set()
    for node in nodes:
        position = Source.parse(node.user_source or node.source)
        if position is not None and position.has_file:
            lines.add((last_name(position.file), position.line))
    return lines


def boundaries_between(
    report: Report, groups: Collection[str]
) -> tuple[Boundary, ...]:
    """The boundaries between two of these groups, most bytes first."""
    found = []
    for boundary in report.boundaries:
        if boundary.producer.group in groups and boundary.consumer.group in groups:
            found.append(boundary)
    return tuple(found[:MOST_BOUNDARIES])


def group_ref(group: Group) -> GroupRef:
    """The part of a group that a comparison holds."""
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
