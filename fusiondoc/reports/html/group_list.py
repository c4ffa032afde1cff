"""Groups with their IR, types and segments, and the operators outside them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from fusiondoc.model import dataclass
from fusiondoc.model.operator_places import folded, outside
from fusiondoc.model.report import Group
from fusiondoc.model.source import from_package
from fusiondoc.rendering.blocks import Code
from fusiondoc.rendering.units import PAGE, size
from fusiondoc.reports.html.page_context import (
    MOST_IN_TABLE,
    MOST_QUOTING,
    MOST_ROWS,
    Context,
    Quotes,
    ReasonKind,
    hue,
    shown,
)
from fusiondoc.views.formatting import (
    further_values,
    never_ran,
    phase_of,
    runs_of,
    short_type,
    times,
    where_from,
    without_column,
)
from fusiondoc.views.report_ranks import ranks_where
from fusiondoc.views.step_words import takes

Facts = Sequence["tuple[str, str | None]"]
"""Names and values; without a value they are left out."""


@dataclass(frozen=True)
class Line:
    """A line of the user's program, and its code where it is at hand."""

    place: str
    code: str | None


@dataclass(frozen=True)
class Operator:
    op: str
    line: Line


@dataclass(frozen=True)
class SegmentRow:
    index: int
    scheduler: str | None
    ops: str
    kernels: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GroupRow:
    """A group, folded. ``ir`` is None where the page has no room; ``types``: (short, as printed)."""

    id: str
    times: str
    ops: str
    fell_back: bool
    where: str
    layers: str
    lines: tuple[Line, ...]
    facts: Facts
    kernels: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    ir_from: str
    ir: Markup | None
    operators: tuple[Operator, ...]
    segments: tuple[SegmentRow, ...]
    printed: str | None
    detailed: bool
    """False where the page has room for its line only."""


@dataclass(frozen=True)
class Groups:
    rows: tuple[GroupRow, ...]
    left: int
    at_once: int
    """Rows that a browser reads before it shows the page. The others stand in parts of so many, each in a
    ``noscript``: page.js reads these afterwards, a browser without scripts with the rest."""


@dataclass(frozen=True)
class UnfusedRow:
    """An operator outside the groups; the filter of the picture filters it by its reason's code."""

    op: str
    reason: ReasonKind
    layers: str
    line: Line
    nodes: str
    moves: str
    takes: str
    quotes: Quotes


@dataclass(frozen=True)
class Outside:
    rows: tuple[UnfusedRow, ...]
    left: int
    with_layers: bool
    with_times: bool
    idle: str | None
    """What never ran, in a line."""


def group_list(context: Context) -> Groups | None:
    """A folded row for each group; None without any."""
    groups = context.report.groups
    if not groups:
        return None
    rows = tuple(_group(group, context) for group in groups[:MOST_ROWS])
    return Groups(rows, len(groups) - len(rows), _AT_ONCE)


_AT_ONCE = 200


def _group(group: Group, context: Context) -> GroupRow:
    files = sorted({shown(n.user_source).rpartition("/")[2] for n in group.nodes if n.user_source})
    again = f", specialisation {group.specialisation} of {group.respecialises}" if group.respecialises else ""
    first = group.evidence[0] if group.evidence else None
    text = context.excerpt(first) if first is not None else None
    place = context.place(first) if first is not None else ""
    body = text if text is not None else _rebuilt(group)
    detailed = context.takes_room("groups", _DETAILS_OF_A_GROUP + 300 * len(group.nodes))
    several = first is not None and len(group.evidence) > 1
    sources = dict.fromkeys(node.user_source for node in group.nodes if node.user_source)
    return GroupRow(
        id=group.id,
        times=times(group),
        ops=", ".join(runs_of(group.ops)),
        fell_back=group.fallback,
        where=", ".join([phase_of(group), *files[:2]]) + ("…" if len(files) > 2 else ""),
        layers=folded(group.layers),
        lines=tuple(Line(shown(source), context.code_at(source)) for source in sources),
        facts=(
            ("Kind", f"{group.kind} ({group.name})"),
            ("Phase", phase_of(group) + again),
            ("Rank", ranks_where(context.report, group.id)),
            ("First in iteration", None if group.iteration is None else str(group.iteration)),
            ("Runs", None if group.runs is None else f"{group.runs:,}"),
            ("Takes", f"{takes(group.time)} of a step" if group.time is not None else None),
            ("Left out", further_values(group)),
            ("Must read", size(group.bytes_in) if group.bytes_in is not None else None),
            ("Must write", size(group.bytes_out) if group.bytes_out is not None else None),
        ),
        kernels=group.kernels,
        inputs=tuple((short_type(one), one) for one in group.inputs),
        outputs=tuple((short_type(one), one) for one in group.outputs),
        ir_from=f" as in {place}" if text else "",
        ir=_coloured(body, context) if detailed else None,
        operators=tuple(
            Operator(node.op, _line(node.user_source, node.source, context)) for node in group.nodes
        )
        if detailed
        else (),
        detailed=detailed,
        segments=tuple(
            SegmentRow(one.index, one.scheduler, ", ".join(runs_of(one.ops)), one.kernels, one.refused)
            for one in group.segments
        ),
        printed=_printed(group, place) if several else None,
    )


def _printed(group: Group, place: str) -> str:
    return f"Printed {len(group.evidence) + group.evidence_left_out:,} times in the log, first at {place}."


_DETAILS_OF_A_GROUP = 1_200
"""Characters of a page that the folded part of a group takes, without its IR and the table of operators."""


def _coloured(body: str, context: Context) -> Markup | None:
    """The IR as it stands on the page; None where that has no room."""
    text: Markup | None = context.room.code(Code(body, "", "ir"))
    return text


def _line(user_source: str | None, source: str | None, context: Context) -> Line:
    """The user's line and the package's, with the code of the first that is at hand."""
    code = context.code_at(user_source) or context.code_at(source)
    return Line(where_from(user_source, without_column(source) if source else None) or "–", code)


def _rebuilt(group: Group) -> str:
    """Where the log cannot be read again: what the report knows of the body."""
    lines = [f"with {group.name} = graph({', '.join(group.inputs)}):"]
    lines += [
        f"  {node.op}(...)" + (f" # {from_package(node.source)}" if node.source else "")
        for node in group.nodes
    ]
    return "\n".join([*lines, f"  return ({', '.join(group.outputs)})"])


def unfused_list(context: Context) -> Outside | None:
    """A row for each operator outside the groups, in the order of the reasons; None without any."""
    rows = outside(context.report)
    idle = never_ran(context.report)
    if not rows and idle is None:
        return None
    order = {reason.code: nth for nth, reason in enumerate(context.reasons)}
    rows = sorted(
        rows, key=lambda row: (row.op in context.fixed, order[row.reason.code], -(row.bytes_moved or 0))
    )
    made = tuple(
        UnfusedRow(
            op=row.op,
            reason=ReasonKind(
                row.reason.code,
                row.reason.text,
                row.reason.stated,
                row.count,
                hue(row.reason.code),
            ),
            layers=folded(row.layers),
            line=_line(row.user_source, row.source, context),
            nodes=f"{row.count:,}" + (" (backward)" if row.phase == "backward" else ""),
            moves=PAGE.known(row.bytes_moved, size),
            takes=takes(row.time) or "–",
            quotes=context.quotes(row.evidence, 1) if nth < MOST_QUOTING else Quotes((), 0),
        )
        for nth, row in enumerate(rows[:MOST_IN_TABLE])
    )
    timed = any(row.time is not None for row in rows)
    return Outside(made, len(rows) - len(made), any(row.layers for row in made), timed, idle)
