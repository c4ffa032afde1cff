"""The sections of the terminal report on further runs: ``--time`` (speed, and where the time goes), ``--try``
and ``--verify``."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fusiondoc.model.bench import Part
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Speed, Try, Verification
from fusiondoc.reports.run_words import milliseconds, remarks, share
from fusiondoc.reports.text import MOST_ROWS, bar, more, size, sparkline
from fusiondoc.reports.wording import NO_DIFFERENCE, against, verdict_on_tries


def pairs(report: Report) -> list[tuple[Speed | None, Speed | None]]:
    """(eager, the other way) of each shape and phase, in the order of the report."""
    found: dict[tuple[int, str], dict[str, Speed]] = {}
    for row in report.speed:
        found.setdefault((row.inputs, row.phase), {})[row.way] = row
    both = [(one.get("eager"), one.get("fused") or one.get("scripted")) for one in found.values()]
    return [pair for pair in both if pair != (None, None)]


def speed(report: Report, width: int) -> RenderableType | None:
    """A row for each shape and phase, and what warming up took; None without times. The spread is left out
    where ``width`` columns have no room for it."""
    rows = pairs(report)
    if not rows:
        return None
    several = len({row.inputs for row in report.speed}) > 1
    memory = any(row.memory_bytes is not None for row in report.speed)
    shown = rows[:MOST_ROWS]
    other = next((two.way for _, two in rows if two is not None), "fused")
    names = [*(["inputs"] if several else []), "ms", "eager", other, f"{other} is"]
    names += ["memory, eager", other] if memory else []
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
    """Columns that the table takes, with two spaces between its own."""
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
    """``2.57× as fast``, or that no difference could be shown."""
    if eager is None or fused is None or not fused.ms.median:
        return Text("-")
    times, differs = against(eager, fused)
    if not differs:
        return Text(NO_DIFFERENCE)
    return Text(f"{times:.2f}× as fast", style="green" if times > 1 else "yellow")


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
        if row.way != "eager" and row.inputs == 0 and len(row.warmup_ms) > 1:
            times = ", ".join(_ms(value) for value in row.warmup_ms[:5])
            said.append(f"warm-up, {row.phase}: {sparkline(row.warmup_ms)}  {times} ms")
    return said


_MOST_LAYERS = 8


def where_time_goes(report: Report) -> RenderableType | None:
    """Kinds of work and the modules that take most of a step; None without a profile."""
    steps = report.steps
    if steps is None:
        return Text(report.steps_note, style="dim") if report.steps_note is not None else None
    lines: list[RenderableType] = [_parts("of a step", steps.parts)]
    if len(steps.layers) > 1:
        lines += ["", _parts("by module", steps.layers[:_MOST_LAYERS])]
    lines += ["", *(Text(text) for text in remarks(report))]
    return Lines(*lines)


def _parts(name: str, parts: Sequence[Part]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(name, overflow="fold")
    table.add_column("takes", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for part in parts:
        table.add_row(part.what, milliseconds(part.ms), share(part.share), bar(part.share, 20))
    return table


def tries(report: Report) -> RenderableType | None:
    """The runs with a change against the run as it was asked for; None without ``--try``. Columns that would
    be empty are left out."""
    if not report.tries:
        return None
    asked, longest = report.tries[0], max(len(row.change) for row in report.tries)
    columns = [
        column
        for column in _COLUMNS
        if column.always or any(column.text(row) not in ("-", "0") for row in report.tries)
    ]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("change", no_wrap=longest <= _MOST_ON_A_LINE)
    for column in columns:
        table.add_column(column.name, justify="right", no_wrap=True)
    for row in report.tries:
        base = report.tries[row.against]
        cells = [Text(column.text(row), style=column.style(row, base)) for column in columns]
        failed = row.problem is not None and row is not asked
        table.add_row(Text(row.change), *([Text("failed", style="bold red")] if failed else cells))
    lines: list[RenderableType] = [table]
    lines += [
        Text(f"{row.change}: {row.problem}", style="dim") for row in report.tries if row.problem is not None
    ]
    if any(row.speed is not None for row in report.tries):
        lines.append(Text("speed: against the run as asked, timed in turns and without logs", style="dim"))
        if any(row.against and row.frozen for row in report.tries):
            lines.append(Text("what is frozen is compared with the first run that is frozen", style="dim"))
    elif any(row.steady_seconds is None and row.groups for row in report.tries):
        why = "no speed where NNC ran through its own evaluator (no LLVM in this torch)"
        lines.append(Text(why, style="dim"))
    lines.append(Text(verdict_on_tries(report.tries), style="bold"))
    return Lines(*lines)


_MOST_ON_A_LINE = 36
"""Characters of a change that is never broken, so that the numbers have room at 80 columns."""


class _Column(NamedTuple):
    name: str
    text: Callable[[Try], str]
    style: Callable[[Try, Try], str] = lambda row, asked: ""
    always: bool = False


def _speed_of_try(row: Try) -> str:
    """Against the run as it was asked for."""
    if row.speed is None:
        return "-"
    return f"{row.speed.value:.2f}×" if row.speed.differs else NO_DIFFERENCE


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
    _Column("speed", _speed_of_try),
    _Column(
        "wrong",
        lambda row: "-" if row.wrong is None else str(row.wrong),
        lambda row, asked: "bold red" if row.wrong else "",
    ),
)


_MOST_COMPARED = 20


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
    for one in rows[:_MOST_COMPARED]:
        table.add_row(*_verified_row(one, passes))
    head = f"{right} of {len(by_name)} results are the same in all of {passes} passes"
    lines: list[RenderableType] = [Text(head), table]
    if len(rows) > _MOST_COMPARED:
        lines.append(Text(f"... {len(rows) - _MOST_COMPARED} more: --format json has all", style="dim"))
    return Lines(*lines)


def _verified_row(rows: Sequence[Verification], passes: int) -> Sequence[Text]:
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
