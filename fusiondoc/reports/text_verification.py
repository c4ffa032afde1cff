"""The section of the terminal report on ``--verify``."""

from __future__ import annotations

from typing import Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fusiondoc.model import Report, Verification

MOST_ROWS = 20


def verification(report: Report) -> RenderableType | None:
    """One row for each compared tensor, those that differ first; None without ``--verify``."""
    if not report.verification:
        return None
    by_name: dict[str, list[Verification]] = {}
    for row in report.verification:
        by_name.setdefault(row.what, []).append(row)
    rows = sorted(by_name.values(), key=lambda rows: all(row.same for row in rows))
    passes = len({row.iteration for row in report.verification})
    right = sum(all(row.same for row in rows) for rows in by_name.values())
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("compared with eager", no_wrap=True)
    for name in ("same", "off by", "of its size", "allowed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in rows[:MOST_ROWS]:
        table.add_row(*_row(one, passes))
    head = f"{right} of {len(by_name)} results are the same in all of {passes} passes"
    lines: list[RenderableType] = [Text(head), table]
    if len(rows) > MOST_ROWS:
        lines.append(Text(f"... {len(rows) - MOST_ROWS} more: --format json has all", style="dim"))
    return Lines(*lines)


def _row(rows: Sequence[Verification], passes: int) -> Sequence[Text]:
    same = sum(row.same for row in rows)
    worst = max(rows, key=lambda row: (not row.same, row.max_rel is None, row.max_rel or 0.0))
    remarks = []
    if worst.by == "statistics":
        remarks.append("by statistics")
    noted = next((row.detail for row in (worst, *rows) if row.detail), None)
    if noted:
        remarks.append(noted)
    return (
        Text(worst.what),
        Text(f"{same}/{len(rows)}", style="" if same == len(rows) else "bold red"),
        Text(_number(worst.max_abs)),
        Text(_number(worst.max_rel)),
        Text("equal" if worst.tolerance == 0 else _number(worst.tolerance)),
        Text(": ".join(remarks), style="dim"),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
