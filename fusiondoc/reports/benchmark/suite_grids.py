"""A suite as grids, which every format shows alike (cases down, variants across, a grid for each measure): on
the terminal, as JSON (schema ``fusiondoc.suite/1``), Markdown and CSV.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model import dataclass
from fusiondoc.model.bench import (
    EACH_CALL,
    EAGER,
    MEMORY,
    Bench,
    BenchVariant,
    Beside,
    Published,
    Suite,
    SuiteCase,
    memory_ratio,
    phase_of,
)
from fusiondoc.rendering.printable import csv_table, in_json, markdown, visible_in
from fusiondoc.rendering.units import digits, interval, megabytes, ratio, short_percent
from fusiondoc.reports.benchmark import HOST_BOUND, groups, of_processes
from fusiondoc.reports.benchmark.documents import COLUMNS, could_not_run, rows_of
from fusiondoc.reports.json_format import plain
from fusiondoc.reports.text import drawn, fields
from fusiondoc.reports.text import plain as without_blocks

SAME = "≈1"
"""The cell of a speed whose 95 % interval holds 1."""


@dataclass(frozen=True)
class Cell:
    """``style``: "faster", "slower", "absent" or none."""

    text: str
    style: str = ""
    interval: str = ""
    """The 95 % interval, for formats with room for it."""


ABSENT = Cell("-", "absent")


@dataclass(frozen=True)
class GridRow:
    """A case in an interpreter. ``eager`` is the value that the others are held against, or None."""

    block: str
    sizes: str
    interpreter: str
    eager: str | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """One thing measured. ``eager`` heads the column of eager's own value, None without one."""

    title: str
    note: str
    eager: str | None
    variants: tuple[str, ...]
    rows: tuple[GridRow, ...]


Shown = Callable[[Bench, BenchVariant], "Cell | None"]


def grids(suite: Suite) -> list[Grid]:
    """Speeds of each phase, then memory, busy share, groups and compilations where they are known."""
    found = []
    for phase in _phases(suite):
        note = f"speed of eager; {SAME}: no difference, the 95 % interval holds 1"
        found.append(_grid(suite, phase, note, "eager ms", _eager_ms(phase), _speed(phase)))
    for phase in _phases(suite):
        note = "of a step, from a profiled run: how much less than eager's"
        found.append(
            _grid(suite, f"GPU time, {phase}", note, "eager ms", _eager_device(phase), _device(phase))
        )
    found += [
        _grid(suite, "Peak memory", "of eager's", "eager MB", _eager_memory, _memory),
        *(
            _grid(
                suite,
                f"GPU busy, {phase}",
                "share of a step's time",
                "eager",
                _busy_eager(phase),
                _busy(phase),
            )
            for phase in _phases(suite)
        ),
        _grid(suite, "Fusion groups", "forward, and + backward", None, lambda *_: None, _groups),
        _grid(suite, "Compiled again", "times after the warm-up", None, lambda *_: None, _recompiles),
    ]
    return [one for one in found if one.rows]


def _phases(suite: Suite) -> list[str]:
    return list(dict.fromkeys(phase.phase for _, one in suite.variants() for phase in one.phases))


def _grid(
    suite: Suite,
    title: str,
    note: str,
    eager: str | None,
    value: Callable[[BenchVariant], str | None],
    shown: Shown,
) -> Grid:
    """Variants and rows for which nothing is known are left out."""
    names = [
        name
        for name in dict.fromkeys(one.name for _, one in suite.variants())
        if name != EAGER
        and any(shown(case.bench, one) for case, one in suite.variants() if case.bench and one.name == name)
    ]
    rows = []
    for case in suite.cases:
        for interpreter, variants in _by_interpreter(case):
            assert case.bench is not None
            cells = [shown(case.bench, variants[name]) if name in variants else None for name in names]
            own = value(variants[EAGER]) if EAGER in variants else None
            if any(cells) or (own is not None and eager is not None):
                row = tuple(cell or ABSENT for cell in cells)
                rows.append(GridRow(case.block, case.sizes, interpreter, own, row))
    return Grid(title, note, eager, tuple(names), tuple(rows) if names else ())


def _by_interpreter(case: SuiteCase) -> Iterator[tuple[str, dict[str, BenchVariant]]]:
    found: dict[str, dict[str, BenchVariant]] = {}
    for one in case.bench.variants if case.bench is not None else ():
        found.setdefault(one.interpreter, {})[one.name] = one
    yield from found.items()


def _eager_ms(phase: str) -> Callable[[BenchVariant], str | None]:
    def value(eager: BenchVariant) -> str | None:
        found = phase_of(eager, phase)
        return None if found is None else digits(found.ms.median)

    return value


def _speed(phase: str) -> Shown:
    def shown(_: Bench, one: BenchVariant) -> Cell | None:
        found = phase_of(one, phase)
        if found is None or found.ratio is None:
            return None
        speed = found.ratio
        limits = interval(speed.low, speed.high)
        if not speed.differs:
            return Cell(SAME, "", limits)
        return Cell(ratio(speed.value), "faster" if speed.value > 1 else "slower", limits)

    return shown


def _eager_device(phase: str) -> Callable[[BenchVariant], str | None]:
    def value(eager: BenchVariant) -> str | None:
        found = phase_of(eager, phase)
        return None if found is None or found.device_ms is None else digits(found.device_ms)

    return value


def _device(phase: str) -> Shown:
    def shown(bench: Bench, one: BenchVariant) -> Cell | None:
        eager = bench.eager(one.interpreter)
        found, against = phase_of(one, phase), phase_of(eager, phase) if eager is not None else None
        if found is None or against is None or not found.device_ms or not against.device_ms:
            return None
        return Cell(ratio(against.device_ms / found.device_ms))

    return shown


def _eager_memory(eager: BenchVariant) -> str | None:
    return None if eager.peak_bytes is None else megabytes(eager.peak_bytes)


def _memory(bench: Bench, one: BenchVariant) -> Cell | None:
    found = memory_ratio(bench, one)
    return None if found is None else Cell(ratio(found), "slower" if found > 1.005 else "")


def _busy_eager(phase: str) -> Callable[[BenchVariant], str | None]:
    def value(eager: BenchVariant) -> str | None:
        found = phase_of(eager, phase)
        return None if found is None or found.busy is None else short_percent(found.busy)

    return value


def _busy(phase: str) -> Shown:
    def shown(_: Bench, one: BenchVariant) -> Cell | None:
        found = phase_of(one, phase)
        if found is None or found.busy is None:
            return None
        return Cell(short_percent(found.busy), "slower" if found.busy < HOST_BOUND else "")

    return shown


def _groups(_: Bench, one: BenchVariant) -> Cell | None:
    text = groups(one)
    return None if text == "-" or not one.available else Cell(text)


def _recompiles(_: Bench, one: BenchVariant) -> Cell | None:
    return Cell(f"{one.recompiles:,}", "slower") if one.recompiles else None


# -- what is said beside the grids ------------------------------------------------------------------------


def interpreter_short(suite: Suite, interpreter: str) -> str:
    """``torch 2.1.2`` where that is told apart from the others."""
    short = {one: one.rpartition(", ")[2] for one in suite.interpreters()}
    return short[interpreter] if list(short.values()).count(short[interpreter]) == 1 else interpreter


@dataclass(frozen=True)
class Figure:
    """A published figure and what was measured here, by interpreter."""

    of: str
    published: str
    here: tuple[tuple[str, str], ...]
    """(interpreter, value and interval)."""
    what: str


def figures(suite: Suite) -> list[Figure]:
    """Every published figure that something here can be held against."""
    found: dict[Published, list[Beside]] = {}
    for one in suite.beside():
        found.setdefault(one.published, []).append(one)
    return [
        Figure(
            ("the most" if "*" in published.case else published.case)
            + f", {published.variant}, {published.phase}"
            + (", memory" if published.measure == MEMORY else ""),
            ratio(published.value),
            tuple((interpreter_short(suite, one.interpreter), _here(one)) for one in measured),
            published.what,
        )
        for published, measured in found.items()
    ]


def sources(published: Sequence[Figure]) -> list[str]:
    """On what the figures were measured, each once."""
    return list(dict.fromkeys(one.what for one in published))


def _here(one: Beside) -> str:
    text = ratio(one.value)
    if one.low is not None and one.high is not None:
        text += f" ({interval(one.low, one.high)})"
    return f"{text} with {one.case}" if "*" in one.published.case else text


def remarks(suite: Suite) -> list[str]:
    """What the numbers mean."""
    said = of_processes(found for _, one in suite.variants() for found in one.phases)
    if suite.small:
        said.append(
            "sizes are small, for a CPU; the authors' are for a GPU, and so are their figures (--full)"
        )
    host = _host_bound(suite)
    if host:
        said.append(host)
    unfused = _without_groups(suite)
    if unfused:
        said.append(unfused)
    each = [one for _, one in suite.variants() if one.name == EACH_CALL and one.recompiles]
    if each:
        most = max(one.recompiles or 0 for one in each)
        never = all(one.groups is not None and one.groups.forward == 0 for one in each)
        said.append(
            f"{EACH_CALL}: wrapping in every call compiles in every call (up to {most:,} times in the rounds"
            f" of a case){', so no graph lives long enough to be fused' if never else ''}"
        )
    if suite.interrupted:
        said.append("interrupted: only the cases and rounds that were done are here")
    return said


def _host_bound(suite: Suite) -> str | None:
    known = [
        (one.name, found)
        for _, one in suite.variants()
        for found in one.phases
        if found.busy is not None and found.phase == _phases(suite)[-1]
    ]
    waiting = [(name, found) for name, found in known if found.busy is not None and found.busy < HOST_BOUND]
    if not waiting:
        return None
    names = list(dict.fromkeys(name for name, _ in waiting))
    return (
        f"bound by the host: in {len(waiting)} of {len(known)} measurements of {_phases(suite)[-1]} the GPU"
        f" is busy for less than half of a step ({', '.join(names)}); there a ratio says how fast operators"
        " are started, not how fast kernels are"
    )


def _without_groups(suite: Suite) -> str | None:
    none = [
        one.name
        for _, one in suite.variants()
        if one.available
        and one.name not in (EAGER, "none", "inductor", EACH_CALL)
        and one.groups is not None
        and one.groups.forward == 0
        and not one.groups.backward
    ]
    if not none:
        return None
    names = [f"{name} in {none.count(name)}" for name in dict.fromkeys(none)]
    return f"no fusion group: {', '.join(names)} of the cases; there the speed says nothing about fusion"


def missing(suite: Suite) -> list[tuple[str, str]]:
    """(who, why) of what could not run: one line for each reason, with the cases that it is of."""
    found: dict[tuple[str, str], list[str]] = {}
    several = len(suite.interpreters()) > 1
    for case, one in suite.variants():
        if one.reason is not None:
            where = f"{one.name}, {interpreter_short(suite, one.interpreter)}" if several else one.name
            found.setdefault((where, one.reason), []).append(case.name)
    for case in suite.cases:
        if case.bench is None and case.reason is not None:
            found.setdefault(("every variant", case.reason), []).append(case.name)
    ran = sum(case.bench is not None for case in suite.cases)
    return [
        (who, why if len(cases) == ran else f"{why} ({', '.join(cases)})")
        for (who, why), cases in found.items()
    ]


_STYLES = {"faster": "green", "slower": "yellow", "absent": "dim", "": ""}


def device(suite: Suite) -> str:
    """The GPU's name, or that there is none."""
    for case in suite.cases:
        if case.bench is not None and case.bench.environment.get("gpu"):
            return case.bench.environment["gpu"]
    return "CPU"


def render(suite: Suite, *, width: int = 80, colour: bool = False, blocks: bool = True) -> str:
    """The suite as text of at most ``width`` columns; the arguments are those of the report's."""
    suite = visible_in(suite)
    head = fields()
    head.add_row("Suite", f"{suite.suite}, {'small' if suite.small else 'full'} sizes")
    for one in suite.interpreters():
        head.add_row("Python", f"{one.replace('Python ', '', 1)}, {device(suite)}")
    parts: list[RenderableType] = [head]
    for grid in grids(suite):
        title = Text(grid.title, style="bold").append(f"  {grid.note}", style="not bold dim")
        parts += ["", title, Padding(_table(grid, suite), (0, 0, 0, 1))]
    parts += [Text(f"\n→ {line}") for line in remarks(suite)]
    published = figures(suite)
    if published:
        parts += ["", Text("Published, and here", style="bold").append("  of eager's", style="not bold dim")]
        parts += [Padding(_figures(published, suite), (0, 0, 0, 1))]
        parts += [Text(f" [{number}] {what}") for number, what in enumerate(sources(published), 1)]
        parts += ["", Text("Why they differ", style="bold")]
        parts += [Padding(Text(line), (0, 0, 0, 1)) for line in suite.why_different]
    parts += could_not_run(missing(suite))
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else without_blocks(text)


def _table(grid: Grid, suite: Suite) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("case", no_wrap=True)
    several = len(suite.interpreters()) > 1
    if several:
        table.add_column("torch", no_wrap=True)
    for name in [*([grid.eager] if grid.eager else []), *grid.variants]:
        table.add_column(name.replace("aot-", "aot-\n"), justify="right", no_wrap=True, vertical="top")
    above = None
    last = None
    for row in grid.rows:
        if row.block != above:
            table.add_row(Text(row.block, style="bold"))
            above, last = row.block, None
        cells = [Text(f" {row.sizes}" if row.sizes != last else "")]
        last = row.sizes
        if several:
            cells.append(
                Text(interpreter_short(suite, row.interpreter).replace("torch ", "", 1), style="dim")
            )
        if grid.eager:
            cells.append(Text(row.eager or "-"))
        cells += [Text(cell.text, style=_STYLES[cell.style]) for cell in row.cells]
        table.add_row(*cells)
    return table


def _figures(published: Sequence[Figure], suite: Suite) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("figure", "published", "here"):
        table.add_column(name, overflow="fold")
    several = len(suite.interpreters()) > 1
    notes = sources(published)
    for one in published:
        here = "\n".join(f"{where}: {value}" if several else value for where, value in one.here)
        number = notes.index(one.what) + 1
        table.add_row(Text(one.of), Text(one.published).append(f" [{number}]", style="dim"), Text(here))
    return table


def as_json(suite: Suite) -> str:
    """Keys in the order of the schema; what is not known is null."""
    data = plain(suite)
    assert isinstance(data, dict)
    first = {"schema": data.pop("schema")}
    return in_json(json.dumps({**first, **data}, indent=2, ensure_ascii=False)) + "\n"


def as_markdown(suite: Suite) -> str:
    """A table for each thing measured; speeds with their 95 % intervals."""
    where = ", ".join(suite.interpreters())
    sizes = "small sizes" if suite.small else "full sizes"
    lines = [f"### Suite {markdown(suite.suite)}", "", markdown(f"{where}, {device(suite)}; {sizes}"), ""]
    several = len(suite.interpreters()) > 1
    for grid in grids(suite):
        heads = [
            "case",
            *(["torch"] if several else []),
            *([grid.eager] if grid.eager else []),
            *grid.variants,
        ]
        lines += [f"**{grid.title}** ({grid.note})", "", "| " + " | ".join(heads) + " |"]
        left = 2 if several else 1
        lines.append("|" + "---|" * left + "--:|" * (len(heads) - left))
        for row in grid.rows:
            cells = [f"{row.block} {row.sizes}"]
            cells += [interpreter_short(suite, row.interpreter).replace("torch ", "", 1)] if several else []
            cells += [row.eager or "-"] if grid.eager else []
            cells += [f"{one.text} ({one.interval})" if one.interval else one.text for one in row.cells]
            lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
        lines.append("")
    lines += [f"- {markdown(line)}" for line in remarks(suite)]
    published = figures(suite)
    if published:
        lines += [
            "",
            "**Published, and here** (of eager's)",
            "",
            "| figure | published | here |",
            "|---|---|---|",
        ]
        for one in published:
            here = "; ".join(f"{where}: {value}" if several else value for where, value in one.here)
            cells = [one.of, f"{one.published}, {one.what}", here]
            lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
        lines += ["", "Why they differ:", ""]
        lines += [f"- {markdown(line)}" for line in suite.why_different]
    absent = missing(suite)
    if absent:
        lines += ["", "Could not run:", ""]
        lines += [f"- {markdown(name)}: {markdown(why)}" for name, why in absent]
    return "\n".join(lines).rstrip() + "\n"


def as_csv(suite: Suite) -> str:
    """The rows of every bench, behind the case that they are of."""
    rows: list[list[object]] = []
    for case in suite.cases:
        empty = [case.reason if name == "reason" else None for name in COLUMNS]
        found = rows_of(case.bench) if case.bench is not None else [empty]
        rows += ([suite.suite, case.block, case.sizes, *row] for row in found)
    return csv_table(["suite", "block", "sizes", *COLUMNS], rows)
