"""The section of the terminal report on ``--try``."""

from __future__ import annotations

from typing import Callable, NamedTuple

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fusiondoc.model import Report, Try


def tries(report: Report) -> RenderableType | None:
    """The runs with a change against the run as it was asked for; None without ``--try``. Columns that would
    be empty are left out."""
    if not report.tries:
        return None
    asked = report.tries[0]
    columns = [
        column
        for column in _COLUMNS
        if column.always or any(column.text(row) not in ("-", "0") for row in report.tries)
    ]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("change", no_wrap=True)
    for column in columns:
        table.add_column(column.name, justify="right", no_wrap=True)
    for row in report.tries:
        cells = [Text(column.text(row), style=column.style(row, asked)) for column in columns]
        failed = row.problem is not None and row is not asked
        table.add_row(Text(row.change), *([Text("failed", style="bold red")] if failed else cells))
    lines: list[RenderableType] = [table]
    lines += [
        Text(f"{row.change}: {row.problem}", style="dim") for row in report.tries if row.problem is not None
    ]
    if any(row.steady_seconds is None and row.groups for row in report.tries):
        why = "no time where NNC ran through its own evaluator (no LLVM in this torch), or without two steady"
        lines.append(Text(why + " passes", style="dim"))
    return Lines(*lines)


class _Column(NamedTuple):
    name: str
    text: Callable[[Try], str]
    style: Callable[[Try, Try], str] = lambda row, asked: ""
    always: bool = False


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


_COLUMNS = (
    _Column("groups", lambda row: str(row.groups), always=True),
    _Column(
        "fused",
        lambda row: str(row.ops_fused),
        lambda row, asked: "green" if row.ops_fused > asked.ops_fused else "",
        always=True,
    ),
    _Column(
        "not fused",
        lambda row: str(row.unfused),
        lambda row, asked: "green" if row.unfused < asked.unfused else "",
        always=True,
    ),
    _Column("fallbacks", lambda row: str(row.fallbacks)),
    _Column("GB/s", lambda row: "-" if row.gb_per_s is None else f"{row.gb_per_s:,.0f}"),
    _Column("steady pass", lambda row: _time(row.steady_seconds)),
    _Column(
        "wrong",
        lambda row: "-" if row.wrong is None else str(row.wrong),
        lambda row, asked: "bold red" if row.wrong else "",
    ),
)
