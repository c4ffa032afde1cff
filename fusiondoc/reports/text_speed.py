"""The section of the terminal report on ``--time``: eager against fused."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fusiondoc.model import Report, Speed
from fusiondoc.reports.text_bars import sparkline
from fusiondoc.reports.text_layout import MOST_ROWS, more, size
from fusiondoc.reports.wording import NOISE


def pairs(report: Report) -> list[tuple[Speed | None, Speed | None]]:
    """(eager, fused) of each shape and phase, in the order of the report."""
    found: dict[tuple[int, str], dict[str, Speed]] = {}
    for row in report.speed:
        found.setdefault((row.inputs, row.phase), {})[row.way] = row
    return [(one.get("eager"), one.get("fused")) for one in found.values()]


def speed(report: Report, width: int) -> RenderableType | None:
    """A row for each shape and phase, and what warming up took; None without times. The spread is left out
    where ``width`` columns have no room for it."""
    if not report.speed:
        return None
    several = len({row.inputs for row in report.speed}) > 1
    memory = any(row.memory_bytes is not None for row in report.speed)
    rows = pairs(report)
    shown = rows[:MOST_ROWS]
    names = [*(["inputs"] if several else []), "ms", "eager", "fused", "fused is"]
    names += ["memory, eager", "fused"] if memory else []
    cells = [_row(eager, fused, several, memory, True) for eager, fused in shown]
    if _width(names, cells) > width:
        cells = [_row(eager, fused, several, memory, False) for eager, fused in shown]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="left" if name == "ms" else "right", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    lines: list[RenderableType] = [table, *more(len(rows))]
    lines += [Text(text) for text in _warm_up(report)]
    if report.speed_note:
        lines.append(Text(report.speed_note, style="dim"))
    return Lines(*lines)


def _width(names: list[str], rows: list[list[Text]]) -> int:
    """Columns that the table takes, with two blanks between its own."""
    return sum(max(len(name), *(len(row[i]) for row in rows)) + 2 for i, name in enumerate(names)) - 2


def _row(eager: Speed | None, fused: Speed | None, several: bool, memory: bool, spread: bool) -> list[Text]:
    known = eager or fused
    assert known is not None
    cells = [Text(str(known.inputs))] if several else []
    cells += [
        Text(known.phase),
        Text(_time(eager, spread)),
        Text(_time(fused, spread)),
        verdict(eager, fused),
    ]
    if memory:
        for one in (eager, fused):
            cells.append(Text("-" if one is None or one.memory_bytes is None else size(one.memory_bytes)))
    return cells


def verdict(eager: Speed | None, fused: Speed | None) -> Text:
    """``2.57× as fast``."""
    if eager is None or fused is None or not fused.ms.median:
        return Text("-")
    ratio = eager.ms.median / fused.ms.median
    if 1 / NOISE < ratio < NOISE:
        return Text("as fast")
    return Text(f"{ratio:.2f}× as fast", style="green" if ratio > 1 else "yellow")


def _time(one: Speed | None, spread: bool) -> str:
    """``31.9 (30.1 to 39.9)``, or the median alone."""
    if one is None:
        return "-"
    if not spread:
        return _ms(one.ms.median)
    return f"{_ms(one.ms.median)} ({_ms(one.ms.min)} to {_ms(one.ms.max)})"


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _warm_up(report: Report) -> list[str]:
    """What the first passes took: profiling and compiling."""
    said = []
    for row in report.speed:
        if row.way == "fused" and row.inputs == 0 and len(row.warmup_ms) > 1:
            times = ", ".join(_ms(value) for value in row.warmup_ms[:5])
            said.append(f"warm-up, {row.phase}: {sparkline(row.warmup_ms)}  {times} ms")
    return said
