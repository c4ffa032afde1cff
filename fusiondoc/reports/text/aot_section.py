"""The section of the terminal report on AOTAutograd: graphs, groups of each side, what a partition keeps."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.aot import AotFunction
from fusiondoc.model.report import Report
from fusiondoc.reports import aot_words
from fusiondoc.reports.text.layout_of_text import MOST_ROWS, more


def aot(report: Report) -> RenderableType | None:
    """Every function that was given to AOTAutograd; None without any."""
    if not report.aot and not report.fused_modules:
        return None
    parts: list[RenderableType] = [Text(aot_words.module_line(one)) for one in report.fused_modules]
    for one in report.aot[:MOST_ROWS]:
        head = Text(one.id, style="bold green")
        head.append(f"  {aot_words.headline(one)}", style="default")
        parts += [head, Padding(_body(one), (0, 0, 0, 2))]
    parts += more(len(report.aot))
    return Lines(*parts)


def _body(one: AotFunction) -> RenderableType:
    graphs = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    graphs.add_column("graph", no_wrap=True)
    graphs.add_column("operators", justify="right", no_wrap=True)
    graphs.add_column("in groups", justify="right", no_wrap=True)
    graphs.add_column("")
    graphs.add_column("not in groups", overflow="fold")
    for side in aot_words.sides(one):
        graphs.add_row(side.phase, f"{side.operators:,}", side.fused, " ".join(side.groups), side.others)
    parts: list[RenderableType] = [graphs]
    said = aot_words.partition(one)
    if said is not None:
        parts.append(Text(said))
    rows = aot_words.kept(one)
    if rows:
        table = Table.grid(padding=(0, 2), pad_edge=False)
        for row in rows[: aot_words.MOST_VALUES]:
            table.add_row(
                Text(row.fate, style="dim"), row.op, row.type, row.bytes, Text(row.line, style="dim")
            )
        parts.append(Padding(table, (0, 0, 0, 2)))
        left = len(rows) - aot_words.MOST_VALUES
        if left > 0:
            parts.append(Text(f"  ... {left} more: --format json has all", style="dim"))
    parts += [Text(text, style="dim") for text in aot_words.remarks(one)]
    return Lines(*parts)
