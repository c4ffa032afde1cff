"""The table of kernels, in the report and in ``fusiondoc kernels``: launch, time and share of the peak."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fusiondoc.model.layer_names import folded, layers_of_kernels
from fusiondoc.model.report import Group, Instance, Kernel, Report
from fusiondoc.reports.printable import visible
from fusiondoc.reports.text.layout_of_text import MOST_ROWS, bar, more
from fusiondoc.reports.wording import dims

BOUND_STYLES = {"bandwidth": "", "cache": "green", "launch": "dim"}

_NOTHING = ("", "-")


class _Column(NamedTuple):
    name: str
    cell: Callable[[Kernel], str]
    right: bool = True
    wanted: int = 0
    """0: there in any width; else the lower the number, the earlier it makes room in a narrow terminal."""


def kernels(report: Report, width: int) -> RenderableType | None:
    """A table of at most ``width`` columns; None without a kernel. Columns without a value are left out."""
    if not report.kernels:
        return None
    shown = table_of(report, report.kernels[:MOST_ROWS], width)
    return Lines(shown.table, *more(len(report.kernels)), *shown.legend)


class Shown(NamedTuple):
    """A table, what its columns mean where they do not say it, and the names of the columns it has."""

    table: Table
    legend: list[Text]
    columns: frozenset[str]


def table_of(report: Report, rows: Sequence[Kernel], width: int) -> Shown:
    """The table of these kernels of the report."""
    columns = _fitting([c for c in _columns(report) if _used(c, rows)], rows, width)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True)
    for kernel in rows:
        cells = (Text(visible(column.cell(kernel)), style=_style(column, kernel)) for column in columns)
        table.add_row(*cells)
    names = frozenset(column.name for column in columns)
    legend = _legend(rows)
    return Shown(table, [Text(legend, style="dim")] if legend else [], names)


def _used(column: _Column, rows: Sequence[Kernel]) -> bool:
    return column.name == "kernel" or any(column.cell(kernel) not in _NOTHING for kernel in rows)


def _fitting(columns: list[_Column], rows: Sequence[Kernel], width: int) -> list[_Column]:
    """The columns that there is room for, the least wanted ones left out first."""

    def needed() -> int:
        return sum(1 + max(len(c.name), *(len(c.cell(kernel)) for kernel in rows)) for c in columns) - 1

    while needed() > width and any(column.wanted for column in columns):
        columns.remove(min((c for c in columns if c.wanted), key=lambda c: c.wanted))
    return columns


def _style(column: _Column, kernel: Kernel) -> str:
    if column.name in ("", "bound") and kernel.bound:
        return BOUND_STYLES.get(kernel.bound, "")
    return ""


def _is_cut(group: Group, one: Instance, launches: Mapping[str, int | None]) -> bool:
    """Whether the kernels of an instance are segments: not each for other shapes, which no run launches
    together."""
    if len(one.kernels) < 2:
        return False
    if group.segments:
        return len(group.segments) == len(one.kernels)
    counts = {launches.get(name) for name in one.kernels}
    return len(counts) == 1 and counts != {None}


def _columns(report: Report) -> list[_Column]:
    layers = layers_of_kernels(report)
    launches = {kernel.id: kernel.launches for kernel in report.kernels}
    parts = {
        name: f"{number}/{len(one.kernels)}"
        for group in report.groups
        for one in group.instances
        if _is_cut(group, one, launches)
        for number, name in enumerate(one.kernels, 1)
    }
    return [
        _Column("kernel", lambda k: k.id, right=False),
        _Column("name", lambda k: k.name, right=False, wanted=4),
        _Column("group", _groups, right=False),
        _Column("layer", lambda k: folded(layers.get(k.id, ()), 1), right=False, wanted=4),
        _Column("part", lambda k: parts.get(k.id, ""), wanted=9),
        _Column("runs", lambda k: _number(k.launches), wanted=8),
        _Column("grid", lambda k: dims(k.grid, "x", "-"), wanted=6),
        _Column("block", lambda k: dims(k.block, "x", "-"), wanted=5),
        _Column("regs", lambda k: _number(k.registers), wanted=2),
        _Column("spills", lambda k: _number(k.spill_bytes or None), wanted=7),
        _Column("warps", lambda k: _percent(k.occupancy), wanted=1),
        _Column("MB", lambda k: _megabytes(k.bytes_moved), wanted=3),
        _Column("first", lambda k: "-" if k.first_ms is None else f"{k.first_ms * 1e3:.1f}", wanted=10),
        _Column("us", lambda k: f"{k.ms.median * 1e3:.1f}" if k.ms else "-"),
        _Column("GB/s", lambda k: f"{k.gb_per_s.median:,.0f}" if k.gb_per_s else "-"),
        _Column("peak", lambda k: _percent(k.peak_fraction)),
        _Column(
            "", lambda k: "" if k.peak_fraction is None else bar(k.peak_fraction), right=False, wanted=11
        ),
        _Column("bound", lambda k: k.bound or "", right=False, wanted=12),
    ]


def _legend(kernels: Sequence[Kernel]) -> str:
    """What the columns mean that do not say it themselves."""
    said = []
    if any(kernel.bound == "launch" for kernel in kernels):
        said.append("launch: it moves so little that the launch takes longer")
    if any(kernel.bound == "cache" for kernel in kernels):
        said.append("cache: faster than the memory, so its data stay in a cache")
    if any(kernel.first_ms is not None for kernel in kernels):
        said.append("first: us of the first launch after a compile, not in the median")
    return "; ".join(said)


def _groups(kernel: Kernel) -> str:
    return ",".join(kernel.groups[:3]) + ("…" if len(kernel.groups) > 3 else "") or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _megabytes(value: int | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1e6:,.1f}" if value >= 100_000 else f"{value / 1e6:.2g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
