"""The section of the terminal report on fusion groups."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.report import Group, Report
from fusiondoc.model.shape_rows import by_inputs
from fusiondoc.reports.source_code import near
from fusiondoc.reports.text.layout_of_text import MOST_ROWS, STYLES, more, size
from fusiondoc.reports.wording import count, short_type, times


def groups(report: Report) -> RenderableType | None:
    """Every group with its operators, their lines and its types; None without any."""
    if not report.groups:
        return None
    parts: list[RenderableType] = []
    for group in report.groups[:MOST_ROWS]:
        parts += [_group_head(group), Padding(_group_body(group), (0, 0, 0, 2))]
    parts += more(len(report.groups))
    return Lines(*parts)


def _group_head(group: Group) -> Text:
    head = Text(group.id + times(group), style="bold green")
    head.append(f"  {group.kind}", style="default")
    facts = [group.phase or "phase unknown", count(len(group.nodes), "operator")]
    if group.respecialises:
        facts.append(f"specialisation {group.specialisation} of {group.respecialises}")
    if group.runs is not None:
        facts.append(f"ran {count(group.runs, 'time')}")
    if group.iteration is not None:
        facts.append(f"from iteration {group.iteration}")
    if group.kernels:
        facts.append("kernels " + ", ".join(group.kernels))
    if group.rank is not None:
        facts.append(f"rank {group.rank}")
    head.append("  " + ", ".join(facts))
    if group.fallback:
        head.append("  FELL BACK", style=STYLES["error"])
    return head


def _group_body(group: Group) -> RenderableType:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    last = None
    for node in group.nodes:
        source = near(node.user_source or node.source or "")
        table.add_row(node.op, "" if source == last else source)
        last = source
    for name, types, moved in (("in", group.inputs, group.bytes_in), ("out", group.outputs, group.bytes_out)):
        shown = "; ".join(short_type(t) for t in types)
        table.add_row(Text(name, style="dim"), shown + (f"  = {size(moved)}" if moved is not None else ""))
    return table


def shapes(report: Report) -> RenderableType | None:
    """A row for each set of inputs; None if there is one."""
    rows = by_inputs(report.iterations, report.groups)
    if not rows:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("inputs", justify="right")
    table.add_column("passes", justify="right")
    table.add_column("compiling", justify="right")
    table.add_column("first pass", justify="right")
    table.add_column("steady", justify="right")
    table.add_column("groups made for it")
    for row in rows:
        table.add_row(
            str(row.inputs),
            str(row.passes),
            str(row.compiled),
            _milliseconds(row.first),
            _milliseconds(row.steady),
            ", ".join(row.groups) or "none: those of other inputs serve",
        )
    return table


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.1f} ms"
