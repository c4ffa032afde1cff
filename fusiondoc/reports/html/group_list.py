"""Groups with their IR, types and segments, the operators outside them, and kernels: figures in one table,
then each with its code and what was dumped of it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from fusiondoc.model import count, dataclass
from fusiondoc.model.operator_places import folded, layers_of_kernels, outside
from fusiondoc.model.report import Group, Kernel
from fusiondoc.model.source import from_package
from fusiondoc.rendering.units import PAGE, bandwidth, interval, percent, seconds, size, whole
from fusiondoc.rendering.values import Gauge
from fusiondoc.reports.html.page_context import (
    MOST_IN_TABLE,
    MOST_KERNELS,
    MOST_QUOTING,
    MOST_ROWS,
    Context,
    Quotes,
    ReasonKind,
    hue,
    peak_bar,
    shown,
)
from fusiondoc.views.formatting import (
    further_values,
    never_ran,
    peak_share,
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
_DETAILS_OF_A_KERNEL = 900


def _coloured(body: str, context: Context) -> Markup | None:
    """The IR as it stands on the page; None where that has no room."""
    if not context.takes_room("text", len(body)):
        return None
    text = context.highlighter.ir(body)
    return text if context.takes_room("text", len(text) - len(body)) else None


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


_BOUND = {
    "bandwidth": "bandwidth-bound",
    "cache": "served from a cache",
    "launch": "launch-bound: it moves too little",
}


@dataclass(frozen=True)
class DumpText:
    """What one option dumped; None where the page has no room."""

    option: str
    text: str | None


@dataclass(frozen=True)
class KernelRow:
    """A kernel's row in the table of figures, and what its folded row holds."""

    id: str
    name: str
    groups: tuple[str, ...]
    layers: str
    launches: int | None
    grid: str
    block: str
    time: str
    rate: str | None
    peak: Gauge | None
    share: str
    registers: int | None
    shared: str
    spills: int | None
    facts: Facts
    detailed: bool
    """False where the page has room for its row of the table only."""
    has_code: bool
    code: Markup | None
    """None where it has none, or the page has no room."""
    dumps: tuple[DumpText, ...]


@dataclass(frozen=True)
class Kernels:
    rows: tuple[KernelRow, ...]
    left: int
    with_layers: bool


def kernel_list(context: Context) -> Kernels | None:
    """None without a kernel."""
    kernels = context.report.kernels
    if not kernels:
        return None
    layers = layers_of_kernels(context.report)
    rows = tuple(
        _kernel(kernel, folded(layers.get(kernel.id, ())), context) for kernel in kernels[:MOST_KERNELS]
    )
    return Kernels(rows, len(kernels) - len(rows), bool(layers))


def _kernel(kernel: Kernel, layers: str, context: Context) -> KernelRow:
    share = peak_share(kernel, context.report)
    rates = kernel.gb_per_s
    code = None
    detailed = context.takes_room("kernels", _DETAILS_OF_A_KERNEL)
    if detailed and kernel.code and context.room_for(kernel.code):
        code = Markup("\n").join(context.highlighter.cuda(kernel.code))
        if not context.takes_room("text", len(code) - len(kernel.code)):
            code = None
    return KernelRow(
        id=kernel.id,
        name=kernel.name,
        groups=kernel.groups,
        layers=layers,
        launches=kernel.launches,
        grid=PAGE.dimensions(kernel.grid),
        block=PAGE.dimensions(kernel.block),
        time=seconds(kernel.ms.median / 1e3) if kernel.ms else "–",
        rate=whole(rates.median) if rates else None,
        peak=peak_bar(share, f"{percent(share)} of peak") if share is not None else None,
        share=PAGE.known(share, percent),
        registers=kernel.registers,
        shared=PAGE.known(kernel.smem_bytes, size),
        spills=kernel.spill_bytes,
        facts=_facts(kernel),
        detailed=detailed,
        has_code=bool(kernel.code),
        code=code,
        dumps=tuple(
            DumpText(one.option, one.text if detailed and context.room_for(one.text) else None)
            for one in kernel.dumps
        ),
    )


def _facts(kernel: Kernel) -> Facts:
    times, rates = kernel.ms, kernel.gb_per_s
    took = rate = None
    if times:
        took = seconds(times.median / 1e3)
        took += f" (from {interval(times.min / 1e3, times.max / 1e3, seconds)})"
    if rates:
        rate = f"{bandwidth(rates.median)} (from {interval(rates.min, rates.max, whole)})"
    return (
        ("Rank", None if kernel.rank is None else str(kernel.rank)),
        ("Scheduler", kernel.scheduler),
        ("Time", took),
        ("Bandwidth", rate),
        ("First launch", seconds(kernel.first_ms / 1e3) if kernel.first_ms is not None else None),
        ("Must move", size(kernel.bytes_moved) if kernel.bytes_moved is not None else None),
        ("What limits it", _BOUND.get(kernel.bound or "", kernel.bound)),
        ("Occupancy", percent(kernel.occupancy) if kernel.occupancy is not None else None),
        ("Compiled", count(kernel.compiles, "time") if kernel.compiles is not None else None),
    )
