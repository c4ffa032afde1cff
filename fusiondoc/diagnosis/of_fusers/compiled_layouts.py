"""Lines of a program at which torch.compile copies a tensor to another layout, or
two kernels use one tensor in two layouts: ``fix`` and the plan remove or add a copy
there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusiondoc.diagnosis.of_fusers.inductor_boundary_findings import line_of
from fusiondoc.diagnosis.speed_of_light import in_bytes
from fusiondoc.fusers.inductor.causes import CODE_OF_CAUSE
from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause
from fusiondoc.model import dataclass
from fusiondoc.model.boundaries import Boundary
from fusiondoc.model.groups import Group
from fusiondoc.model.reasons.of_inductor import StayedApart
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source

_OF_LAYOUTS = frozenset(
    CODE_OF_CAUSE[cause]
    for cause in (
        ApartCause.ACCESS,
        ApartCause.SIZES,
        ApartCause.ELEMENTS,
        ApartCause.TILING,
    )
)
"""Causes of boundaries that another layout can remove."""

_COPY = "aten::clone"
"""The operator of ``.contiguous()`` in a graph."""

_COPIES_OF_WRAPPER = "FD257"
_MOST_LINES = 40
"""The most lines between the lines of both ends of a boundary."""


@dataclass(frozen=True)
class LayoutLine:
    """A line at which a layout may be changed."""

    source: str
    """``file:line``."""
    brings: str
    """The cost of the copy, or the kernels that it separates, in words."""
    bytes: int
    boundary: tuple[str, str | None] | None = None
    """The code of a boundary's cause, and the line of its finding."""
    copies: bool = True
    """True for a copy; False for a view, which may become a copy."""


def layout_lines(report: Report) -> list[LayoutLine]:
    """Return the lines: copies before views, and those that move most bytes
    first."""
    found = [
        *_copies_alone(report),
        *_copies_at_boundaries(report),
        *_of_wrapper(report),
    ]
    found.sort(key=lambda one: -one.bytes)
    return [
        *found,
        *sorted(_views_at_boundaries(report), key=lambda one: -one.bytes),
    ]


def _copies_alone(report: Report) -> Iterator[LayoutLine]:
    """Yield the lines of kernels that only copy."""
    for group in report.groups:
        if group.nodes and all(node.op == _COPY for node in group.nodes):
            moved = (group.bytes_in or 0) + (group.bytes_out or 0)
            does = f"{group.id} copies a tensor to another layout, and does nothing else"
            for source in _lines(group):
                yield LayoutLine(
                    source, f"{does}: {in_bytes(moved)}", moved * group.count
                )


def _of_wrapper(report: Report) -> Iterator[LayoutLine]:
    for row in report.rows_that_may_have_run:
        if row.reason.code == _COPIES_OF_WRAPPER:
            for source in row.users_lines:
                yield LayoutLine(
                    source, f"{row.op}: {row.reason.text}", row.bytes_moved or 0
                )


def _copies_at_boundaries(report: Report) -> Iterator[LayoutLine]:
    for boundary, code in _boundaries(report):
        for group in _groups(boundary, report):
            for source in _lines(group, only_copies=True):
                yield _at_boundary(boundary, code, source, report, copies=True)


def _views_at_boundaries(report: Report) -> Iterator[LayoutLine]:
    """Yield the lines from one end to the other of boundaries whose ends read the
    tensor in different orders."""
    for boundary, code in _boundaries(report):
        detail = boundary.cause.detail if boundary.cause is not None else None
        accesses = detail.accesses if isinstance(detail, StayedApart) else ()
        if not any(
            access.difference is AccessDifference.ORDER for access in accesses
        ):
            continue
        names: list[str] = []
        for group in _groups(boundary, report):
            names.extend(_lines(group))
        sources = []
        for position in map(Source.parse, names):
            if position is not None:
                sources.append(position)
        for file in dict.fromkeys(source.file for source in sources):
            numbers = []
            for known in sources:
                if known.file == file:
                    numbers.append(known.line)
            for number in range(
                min(numbers), min(max(numbers) + 1, min(numbers) + _MOST_LINES)
            ):
                yield _at_boundary(
                    boundary, code, f"{file}:{number}", report, copies=False
                )


def _at_boundary(
    boundary: Boundary, code: str, source: str, report: Report, copies: bool
) -> LayoutLine:
    moved = (boundary.bytes or 0) * boundary.count
    parts = []
    for end in (boundary.producer, boundary.consumer):
        parts.append(end.group or end.op)
    ends = " and ".join(parts)
    why = boundary.cause.text if boundary.cause is not None else ""
    brings = f"{in_bytes(moved)} go through memory at {ends}: {why}"
    return LayoutLine(
        source, brings, moved, (code, line_of(boundary, report)), copies
    )


def _boundaries(report: Report) -> Iterator[tuple[Boundary, str]]:
    for boundary in report.boundaries:
        if boundary.cause is not None and boundary.cause.code in _OF_LAYOUTS:
            yield boundary, boundary.cause.code


def _groups(boundary: Boundary, report: Report) -> Iterable[Group]:
    ends = []
    for end in (boundary.producer, boundary.consumer):
        ends.append(report.group(end.group))
    return [group for group in ends if group is not None]


def _lines(group: Group, only_copies: bool = False) -> Iterable[str]:
    nodes = []
    for node in group.nodes:
        if not only_copies or node.op == _COPY:
            nodes.append(node)
    return dict.fromkeys(
        node.user_source for node in nodes if node.user_source is not None
    )
