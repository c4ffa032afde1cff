"""The boundaries as a section: tensors that go through memory between kernels and
calls, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fusiondoc.model import count
from fusiondoc.model.boundaries import Boundary, BoundaryEnd
from fusiondoc.model.reasons import StayedApart
from fusiondoc.model.report import Unfused
from fusiondoc.model.rows_by_index import rows_by_index
from fusiondoc.rendering.blocks import (
    Column,
    Formats,
    Item,
    Items,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.units import size
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    IdLinks,
    ShownReason,
    Snippet,
    Status,
    Text,
    Tone,
)
from fusiondoc.views.formatting import short_type, with_short_positions
from fusiondoc.views.report_context import ReportContext

ON_TERMINAL = 5
MOST_ON_A_PAGE = 400
_COLUMNS = (
    Column("bytes", number=True, optional=True),
    Column("from"),
    Column("to"),
    Column("tensor", optional=True),
    Column("how"),
    Column("why", wide=True),
    Column("times", number=True),
)


def boundaries(context: ReportContext) -> Section:
    """Section of the boundaries of a program that torch.compile compiled, most
    bytes first; empty without torch.compile."""
    report = context.report
    if report.compiled is None or not report.boundaries:
        return Section("boundaries", "Boundaries")
    rows = rows_by_index(report)
    if context.format is Formats.TERMINAL:
        found = []
        for one in report.boundaries:
            if context.every or _matters(one):
                found.append(one)
        items = tuple(_item(one, rows) for one in found)
        list_ = Items(items, 0, None if context.every else ON_TERMINAL)
        others = Sentences(tuple(_left_out(report.boundaries, found)), Tone.DIM)
        return Section(
            "boundaries",
            "Boundaries",
            through_memory(report.boundaries),
            (list_, others),
        )
    shown = report.boundaries[:MOST_ON_A_PAGE]
    left_out = len(report.boundaries) - len(shown) + report.boundaries_left_out
    table = Table(
        _COLUMNS,
        tuple(Row(_cells(one, rows)) for one in shown),
        caption="Tensors between kernels and calls",
        left_out=left_out,
    )
    legend = Sentences(
        ("Each element once; written and read: by one and then by the other.",),
        Tone.DIM,
    )
    return Section(
        "boundaries",
        "Boundaries",
        through_memory(report.boundaries),
        (table, legend),
    )


def through_memory(rows: tuple[Boundary, ...]) -> str:
    """Return ``12 tensors through memory, 3.1 MB``."""
    number = count(sum(one.count for one in rows), "tensor")
    known = []
    for one in rows:
        if one.bytes is not None:
            known.append(one.bytes * one.count)
    return f"{number} through memory" + (f", {size(sum(known))}" if known else "")


def _left_out(
    every: Sequence[Boundary], shown: Sequence[Boundary]
) -> Iterator[str]:
    """Yield how many boundaries are at calls that no change removes."""
    left = sum(one.count for one in every) - sum(one.count for one in shown)
    if left > 0:
        yield f"Besides, {count(left, 'tensor')} around calls of libraries and the like: --verbose has all"


def _matters(boundary: Boundary) -> bool:
    """True if a change may remove the boundary; a terminal shows no others."""
    detail = boundary.cause.detail if boundary.cause is not None else None
    return not (isinstance(detail, StayedApart) and detail.is_seldom_changed)


def _item(boundary: Boundary, rows: Mapping[int | None, Unfused]) -> Item:
    """Return an entry of a terminal: bytes and code, ends and tensor, and the cause
    below them."""
    cause = boundary.cause
    moved = size(boundary.bytes) if boundary.bytes is not None else "unknown size"
    tensor = ""
    if boundary.tensor is not None:
        tensor = f", {short_type(boundary.tensor)}"
    times = f", {boundary.count:,} times" if boundary.count > 1 else ""
    ends = f"{_name(boundary.producer, rows)} → {_name(boundary.consumer, rows)}"
    why = "the log does not state why they are apart"
    if cause is not None:
        stated = "" if cause.stated else " (worked out)"
        why = f"{cause.code} {with_short_positions(cause.text)}{stated}"
    return Item(
        (Status(moved),), f"{ends}{tensor}, {boundary.kind}{times}", details=(why,)
    )


def _cells(
    boundary: Boundary, rows: Mapping[int | None, Unfused]
) -> tuple[Cell, ...]:
    cause = boundary.cause
    why: Cell = Text("unknown", Tone.DIM)
    if cause is not None:
        why = ShownReason(cause.code, cause.text, cause.stated)
    return (
        Bytes(boundary.bytes),
        _end(boundary.producer, rows),
        _end(boundary.consumer, rows),
        Snippet(short_type(boundary.tensor) if boundary.tensor is not None else ""),
        Text(boundary.kind),
        why,
        Count(boundary.count),
    )


def _end(end: BoundaryEnd, rows: Mapping[int | None, Unfused]) -> Cell:
    if end.group is not None:
        return IdLinks((end.group,))
    return Snippet(_name(end, rows))


def _name(end: BoundaryEnd, rows: Mapping[int | None, Unfused]) -> str:
    row = rows.get(end.row)
    return end.group or (row.op if row is not None else end.op)
