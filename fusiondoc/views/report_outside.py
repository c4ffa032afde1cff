"""The operators outside groups as a section: why, where, and the bytes that they
move."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.fusers import frontend_of_group
from fusiondoc.fusers.te import TE
from fusiondoc.model import multiple
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import folded, outside
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import SEVERITIES, Report, Unfused
from fusiondoc.rendering.blocks import (
    Column,
    Formats,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.drawing import MOST_ROWS
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Quotes,
    ShownReason,
    Snippet,
    Text,
    Tone,
)
from fusiondoc.views.formatting import never_ran, where_called, with_short_positions
from fusiondoc.views.report_context import MOST_IN_TABLE, ReportContext, can_change
from fusiondoc.views.step_words import takes

MOST_QUOTING = 500
"""Most rows of a page that quote the log."""
_NOT_TERMINAL = ~Formats.TERMINAL
_COLUMNS = (
    Column("operator", formats=Formats.TERMINAL),
    Column("line", formats=Formats.TERMINAL),
    Column("code", cut=True, formats=Formats.TERMINAL),
    Column("operator", formats=_NOT_TERMINAL),
    Column("why", wide=True, formats=_NOT_TERMINAL),
    Column("layers", optional=True, wide=True, formats=_NOT_TERMINAL),
    Column("source", wide=True, formats=_NOT_TERMINAL),
    Column("nodes", number=True, formats=_NOT_TERMINAL),
    Column("moves", number=True, optional=True, formats=_NOT_TERMINAL),
    Column("takes", number=True, optional=True, formats=_NOT_TERMINAL),
    Column("in the log", wide=True, formats=Formats.PAGE),
)


def unfused(context: ReportContext) -> Section:
    """Section with a row for each operator outside groups, and a line on those that
    never ran; empty without any."""
    rows = list(_in_order(context))
    on_page = context.format is Formats.PAGE
    made = []
    for number, row in enumerate(rows[: _most_rows(context)]):
        if on_page and number < MOST_QUOTING:
            quotes = context.quotes(row.evidence, 1)
        else:
            quotes = Quotes(())
        above = None
        if context.format is Formats.TERMINAL:
            above = _cause(row.reason, context.format)
        made.append(Row(_cells(row, context, quotes), above))
    table = Table(
        _COLUMNS,
        tuple(made),
        caption="Operators outside the groups",
        left_out=len(rows) - len(made),
        bare=True,
    )
    idle = never_ran(context.report)
    lines = (f"Besides, {idle}",) if idle is not None else ()
    return Section(
        "unfused", "Not fused", blocks=(table, Sentences(lines, Tone.DIM))
    )


def _most_rows(context: ReportContext) -> int | None:
    """Return how many rows the table has at most; None: all."""
    if context.format is Formats.PAGE:
        return MOST_IN_TABLE
    if context.format is Formats.TERMINAL and not context.every:
        return MOST_ROWS
    return None


def _in_order(context: ReportContext) -> Iterable[Unfused]:
    """Return the rows in order: on a terminal below their reasons; elsewhere first
    those that can be changed, by the bytes that they move."""
    if context.format is Formats.TERMINAL:
        ordered = []
        for _, rows in by_reason(context.report):
            ordered.extend(rows)
        return ordered
    order = {reason.code: number for number, reason in enumerate(context.reasons)}

    def rank(row: Unfused) -> tuple[bool, int, int]:
        return (
            row.op in context.fixed,
            order[row.reason.code],
            -(row.bytes_moved or 0),
        )

    return sorted(outside(context.report), key=rank)


def by_reason(report: Report) -> list[tuple[Reason, list[Unfused]]]:
    """Return the rows of operators that ran by their reason, those with equal words
    together: stated reasons first, and of these the most expensive; for operators
    whose fuser states no reason, first those that a change of the program can
    mend."""
    of_words: dict[tuple[str, str, bool], list[Unfused]] = {}
    for row in outside(report):
        key = (row.reason.code, row.reason.text, row.reason.stated)
        of_words.setdefault(key, []).append(row)

    def rank(rows: list[Unfused]) -> tuple[bool, int, tuple[int, str]]:
        first = rows[0]
        moved = sum(row.bytes_moved or 0 for row in rows)
        if frontend_of_group(first.op) is TE:
            loss = _mendable(first.reason)
        else:
            loss = 0, ""
        return not first.reason.stated, -moved, loss

    return [(rows[0].reason, rows) for rows in sorted(of_words.values(), key=rank)]


def _mendable(reason: Reason) -> tuple[int, str]:
    known = CODES.get(
        reason.code
    )  # a saved report of a later version can have other codes
    is_lost = known is not None and can_change(reason.code)
    return (
        SEVERITIES.index(known.severity) if known is not None and is_lost else 3
    ), reason.code


def _cause(reason: Reason, format_: Formats) -> ShownReason:
    if format_ is Formats.TERMINAL:
        text = with_short_positions(reason.text)
    else:
        text = reason.text
    return ShownReason(reason.code, text, reason.stated)


def _cells(
    row: Unfused, context: ReportContext, quotes: Quotes
) -> tuple[Cell, ...]:
    backward = " (backward)" if row.phase == "backward" else ""
    return (
        Text(_operator(row)),
        Text(_layers_and_line(row) + backward),
        Text(context.code_at(row.user_source), Tone.DIM),
        Snippet(row.op),
        _cause(row.reason, context.format),
        Snippet(folded(row.layers)),
        context.line_of(row),
        Text(f"{row.count:,}{backward}"),
        Bytes(row.bytes_moved),
        Text(takes(row.time) or ""),
        quotes,
    )


def _operator(row: Unfused) -> str:
    """Return ``aten::add x2``, above the time that they take in a step."""
    took = takes(row.time)
    return (
        row.op + multiple(row.count) + (f"\n  {took}" if took is not None else "")
    )


def _layers_and_line(row: Unfused) -> str:
    where = where_called(row) or "-"
    layers = folded(row.layers)
    if layers:
        return f"{layers}\n{where}"
    return where
