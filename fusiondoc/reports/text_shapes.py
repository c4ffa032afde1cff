"""The table by shape: what each set of inputs cost when a model is run with several."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table

from fusiondoc.diagnosis.specialisations import by_inputs
from fusiondoc.model import Report


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
