"""A bench on the terminal: a table a phase, and why what is not in it could not run."""

from __future__ import annotations

from typing import Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.bench import EAGER, Bench, BenchPhase, BenchVariant
from fusiondoc.reports.benchmark.wordings import (
    changing,
    count,
    groups,
    interpreters,
    milliseconds,
    missing,
    phase_of,
    phases,
    remarks,
    seconds,
    shapes_of,
    share,
    times,
    verdict,
)
from fusiondoc.reports.printable import visible_in
from fusiondoc.reports.text.layout_of_text import drawn, fields, names_and_texts, plain, size


def render(
    bench: Bench, *, width: int = 80, colour: bool = False, blocks: bool = True, full: bool = False
) -> str:
    """The bench as text of at most ``width`` columns; the arguments are those of the report's. ``full``: with
    where the time of each variant goes."""
    bench = visible_in(bench)
    head = fields()
    head.add_row("Target", bench.target)
    if bench.inputs and not changing(bench):
        head.add_row("Inputs", ", ".join(bench.inputs))
    device = bench.environment.get("gpu") or "CPU"
    for one in interpreters(bench):
        head.add_row("Python", f"{one.replace('Python ', '', 1)}, {device}")
    parts: list[RenderableType] = [head]
    for phase in phases(bench):
        parts += ["", Text(phase, style="bold"), Padding(_speeds(bench, phase), (0, 0, 0, 1))]
    details = _details(bench)
    if details is not None:
        parts += ["", Text("Compiling, memory, numbers", style="bold"), Padding(details, (0, 0, 0, 1))]
    goes = times(bench) if full else []
    if goes:
        parts += ["", Text("Where the time goes", style="bold")]
        for about, text in goes:
            parts += [Padding(Text(about, style="dim"), (0, 0, 0, 1)), Padding(Text(text), (0, 0, 0, 3))]
    said = remarks(bench)
    if said:
        parts += ["", *(Padding(Text(f"→ {line}"), (0, 0, 0, 0)) for line in said)]
    parts += could_not_run(missing(bench))
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else plain(text)


def could_not_run(absent: Sequence[tuple[str, str]]) -> list[RenderableType]:
    """A section on what has no times, by name and reason; nothing where all ran."""
    if not absent:
        return []
    table = names_and_texts(max(len(name) for name, _ in absent))
    for name, why in absent:
        table.add_row(name, why)
    return ["", Text("Could not run", style="bold"), Padding(table, (0, 0, 0, 1))]


def _table(names: list[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _speeds(bench: Bench, phase: str) -> RenderableType:
    """A row for each variant that ran; a table for each shape and interpreter, where there are several."""
    several = changing(bench)
    rows = [
        (one, found, label)
        for shape, label in shapes_of(bench)
        for one in bench.variants
        for found in [phase_of(one, phase, shape)]
        if found is not None
    ]
    busy = any(found.busy is not None for _, found, _ in rows)
    parts: dict[str, list[tuple[BenchVariant, BenchPhase]]] = {}
    for one, found, label in rows:
        names = [label if several else "", one.interpreter if len(interpreters(bench)) > 1 else ""]
        parts.setdefault(", ".join(text for text in names if text), []).append((one, found))
    shown: list[RenderableType] = []
    for about, of_part in parts.items():
        shown += [Text(about, style="dim")] if about else []
        shown.append(_part(of_part, several, busy))
    return Lines(*shown)


def _part(rows: list[tuple[BenchVariant, BenchPhase]], several: bool, busy: bool) -> Table:
    names = ["variant", "ms", "speed of eager", *(["busy" if several else "GPU busy"] if busy else [])]
    if several:
        names += ["first ms", "compiled", "guards"]
    else:
        names[2:2] = ["steps/s"]
        names += ["groups", "warm-up"]
    table = _table(names)
    for one, found in rows:
        told = Text("" if one.name == EAGER else verdict(found.ratio))
        if found.ratio is not None and found.ratio.differs:
            told.stylize("green" if found.ratio.value > 1 else "yellow")
        cells = [Text(one.name), Text(milliseconds(found.ms.median)), told]
        cells += [Text(share(found.busy))] if busy else []
        if several:
            first = "-" if found.first_ms is None else milliseconds(found.first_ms)
            cells += [Text(first), Text(count(found.recompiles)), Text(count(found.guard_failures))]
        else:
            cells[2:2] = [Text(f"{found.steps_per_s:,.0f}")]
            cells += [Text(groups(one)), Text(seconds(one.warmup_s))]
        table.add_row(*cells)
    return table


def _details(bench: Bench) -> Table | None:
    """Compilation, memory against eager, and the largest difference; columns that none has are left out."""
    rows = [one for one in bench.variants if one.available]
    if not rows:
        return None
    memory = any(one.peak_bytes is not None for one in rows)
    several = changing(bench)
    names = ["variant", *(["groups", "warm-up"] if several else []), "compiling"]
    names += [*(["memory", "of eager"] if memory else []), "largest difference"]
    table = _table([*names, "note"])
    table.columns[-1].justify = "left"
    table.columns[-1].no_wrap = False
    for one in rows:
        cells = [one.name, *([groups(one), seconds(one.warmup_s)] if several else []), seconds(one.compile_s)]
        if memory:
            cells += ["-" if one.peak_bytes is None else size(one.peak_bytes), _of_eager(bench, one)]
        cells.append("-" if one.max_difference is None else f"{one.max_difference:.2g}")
        table.add_row(*(Text(cell) for cell in cells), Text(one.note or "", style="dim"))
    return table


def _of_eager(bench: Bench, one: BenchVariant) -> str:
    eager = bench.eager(one.interpreter)
    if one.peak_bytes is None or eager is None or not eager.peak_bytes:
        return "-"
    return f"{one.peak_bytes / eager.peak_bytes:.2f}×"
