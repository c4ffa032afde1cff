"""The section of the terminal report on ``--try``."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fusiondoc.model import Report, Try


def tries(report: Report) -> RenderableType | None:
    """The runs with a change against the run as it was asked for; None without ``--try``."""
    if not report.tries:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("change", overflow="fold")
    for name in ("groups", "fused", "not fused", "fallbacks", "GB/s", "steady pass"):
        table.add_column(name, justify="right", no_wrap=True)
    verified = any(row.wrong is not None for row in report.tries)
    if verified:
        table.add_column("wrong", justify="right", no_wrap=True)
    for row in report.tries:
        table.add_row(*_row(row, report.tries[0], verified))
    lines: list[RenderableType] = [table]
    lines += [
        Text(f"{row.change}: {row.problem}", style="dim") for row in report.tries if row.problem is not None
    ]
    if any(row.steady_seconds is None and row.groups for row in report.tries):
        why = "no time where NNC ran through its own evaluator (no LLVM in this torch), or no pass was steady"
        lines.append(Text(why, style="dim"))
    return Lines(*lines)


def _row(row: Try, asked: Try, verified: bool) -> tuple[Text, ...]:
    if row.problem is not None and row is not asked:
        return (Text(row.change), Text("failed", style="bold red"))
    wrong = Text("-" if row.wrong is None else str(row.wrong), style="bold red" if row.wrong else "")
    cells = (
        Text(row.change),
        Text(str(row.groups)),
        Text(str(row.ops_fused), style="green" if row.ops_fused > asked.ops_fused else ""),
        Text(str(row.unfused), style="green" if row.unfused < asked.unfused else ""),
        Text(str(row.fallbacks)),
        Text("-" if row.gb_per_s is None else f"{row.gb_per_s:,.0f}"),
        Text("-" if row.steady_seconds is None else _time(row.steady_seconds)),
    )
    return (*cells, wrong) if verified else cells


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
