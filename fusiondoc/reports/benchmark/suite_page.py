"""A suite as one self-contained page: a bar for each variant, lines over the sizes of a block, all grids."""

from __future__ import annotations

from typing import Iterator

from fusiondoc.model.bench import EAGER, Bench, BenchPhase, BenchVariant, Suite
from fusiondoc.model.numbers import count
from fusiondoc.reports import benchmark as wordings
from fusiondoc.reports.benchmark import suite_grids
from fusiondoc.reports.benchmark.bench_page import (
    Page,
    PageTable,
    Row,
    Section,
    device_of,
    drawn,
    environment_of,
    share_of,
    style_of,
    where_of,
)
from fusiondoc.reports.benchmark.plots import Bar, Bars, Lines, hue, lines
from fusiondoc.reports.benchmark.suite_grids import Cell, Grid


def render(suite: Suite) -> str:
    """The page as HTML."""
    return drawn(_of_suite(suite))


def _of_suite(suite: Suite) -> Page:
    sections = (
        Section(
            "speed", "Speed", "Speed of eager; the line is the 95 % interval.", bars=tuple(_ratios(suite))
        ),
        Section("shapes", "Over shapes", lines=tuple(_suite_lines(suite))),
        Section("meaning", "What it means", said=tuple(suite_grids.remarks(suite))),
        Section(
            "published", "Published, and here", "Of eager's.", tables=_published(suite), said=_why(suite)
        ),
        Section(
            "numbers", "Numbers", tables=tuple(_grid_table(one, suite) for one in suite_grids.grids(suite))
        ),
        Section("missing", "Could not run", facts=tuple(suite_grids.missing(suite))),
        Section("environment", "Environment", facts=tuple(_suite_environment(suite))),
    )
    ran = [case for case in suite.cases if case.bench is not None]
    said = f"{count(len(ran), 'case')}, {'small' if suite.small else 'full'} sizes"
    device = device_of(ran[0].bench) if ran and ran[0].bench is not None else "CPU"
    where = f"{said}; {where_of(suite.interpreters(), device)}"
    shown = tuple(one for one in sections if one.holds)
    return Page(f"suite {suite.suite}", _suite_verdict(suite), where, shown)


def _suite_verdict(suite: Suite) -> str:
    best: tuple[float, str] | None = None
    for case, one in suite.variants():
        for timed in one.phases:
            if one.name != EAGER and timed.ratio is not None and timed.ratio.differs:
                where = f"{one.name}, {case.name}, {timed.phase}"
                best = max(best or (0.0, ""), (timed.ratio.value, where))
    if best is None or best[0] <= 1:
        return "No variant is faster than eager in any case"
    return f"The most: {best[0]:.2f}× the speed of eager ({best[1]})"


def _ratios(suite: Suite) -> Iterator[Bars]:
    """A plot for each block, phase and interpreter where a block has one or two cases; lines tell more."""
    counts: dict[str, int] = {}
    for case in suite.cases:
        counts[case.block] = counts.get(case.block, 0) + 1
    several = len(suite.interpreters()) > 1
    for case in suite.cases:
        bench = case.bench
        if bench is None or counts[case.block] > 2:
            continue
        for phase in wordings.phases(bench):
            for interpreter in wordings.interpreters(bench):
                found = [
                    (one, timed)
                    for one in bench.variants
                    for timed in [wordings.phase_of(one, phase)]
                    if timed is not None and timed.ratio is not None and one.interpreter == interpreter
                ]
                longest = max((timed.ratio.high for _, timed in found if timed.ratio), default=0.0)
                bars = tuple(_ratio_bar(one, timed, longest) for one, timed in found)
                if bars:
                    where = f", {suite_grids.interpreter_short(suite, interpreter)}" if several else ""
                    yield Bars(case.name, f"{phase}{where}", bars)


def _ratio_bar(one: BenchVariant, timed: BenchPhase, longest: float) -> Bar:
    assert timed.ratio is not None
    ms = f"{wordings.milliseconds(timed.ms.median)} ms"
    detail = "" if one.name == EAGER else wordings.verdict(timed.ratio)
    low, high = share_of(timed.ratio.low, longest), share_of(timed.ratio.high, longest)
    return Bar(
        one.name, ms, detail, share_of(timed.ratio.value, longest), low, high, hue(one.name), style_of(timed)
    )


def _suite_lines(suite: Suite) -> Iterator[Lines]:
    """Time and memory over the sizes of a block, a plot for each dtype, phase and interpreter."""
    families: dict[tuple[str, str], list[tuple[str, Bench]]] = {}
    for case in suite.cases:
        if case.bench is not None:
            shape, _, dtype = case.sizes.partition(" ")
            families.setdefault((case.block, dtype), []).append((shape, case.bench))
    several = len(suite.interpreters()) > 1
    for (block, dtype), members in families.items():
        labels = [shape for shape, _ in members]
        phases = list(dict.fromkeys(phase for _, bench in members for phase in wordings.phases(bench)))
        for interpreter in suite.interpreters():
            where = f", {suite_grids.interpreter_short(suite, interpreter)}" if several else ""
            for phase in phases if len(members) > 2 else []:
                timed = [_by_variant(bench, interpreter, phase) for _, bench in members]
                names = list(dict.fromkeys(name for row in timed for name in row))
                times = {n: [row[n].ms.median if n in row else None for row in timed] for n in names}
                memory = {n: [_megabytes(row.get(n)) for row in timed] for n in names}
                title = f"{block} {dtype}".strip() + f", {phase}{where}"
                for plot in (
                    lines(f"Time: {title}", "ms", labels, times),
                    lines(f"Memory: {title}", "MB", labels, memory),
                ):
                    if plot is not None:
                        yield plot


def _by_variant(bench: Bench, interpreter: str, phase: str) -> dict[str, BenchPhase]:
    found = {}
    for one in bench.variants:
        timed = wordings.phase_of(one, phase)
        if one.interpreter == interpreter and timed is not None:
            found[one.name] = timed
    return found


def _megabytes(timed: BenchPhase | None) -> float | None:
    return timed.peak_bytes / 1e6 if timed is not None and timed.peak_bytes else None


def _grid_table(grid: Grid, suite: Suite) -> PageTable:
    several = len(suite.interpreters()) > 1
    heads = [("Case", ""), *([("torch", "")] if several else [])]
    heads += [(name, "n") for name in (*([grid.eager] if grid.eager else []), *grid.variants)]
    rows = []
    above = None
    for row in grid.rows:
        cells = [Cell(row.sizes)]
        if several:
            short = suite_grids.interpreter_short(suite, row.interpreter)
            cells.append(Cell(short.replace("torch ", "", 1)))
        cells += [Cell(row.eager or "-")] if grid.eager else []
        rows.append(Row((*cells, *row.cells), row.block if row.block != above else None))
        above = row.block
    return PageTable(heads, tuple(rows), grid.title, grid.note)


def _published(suite: Suite) -> tuple[PageTable, ...]:
    several = len(suite.interpreters()) > 1
    rows = []
    for one in suite_grids.figures(suite):
        here = "; ".join(f"{where}: {value}" if several else value for where, value in one.here)
        rows.append(Row((Cell(one.of), Cell(one.published), Cell(here), Cell(one.what))))
    heads = [("Figure", ""), ("Published", "n"), ("Here", ""), ("Measured on", "")]
    return (PageTable(heads, tuple(rows)),) if rows else ()


def _why(suite: Suite) -> tuple[str, ...]:
    return suite.why_different if suite.beside() else ()


def _suite_environment(suite: Suite) -> Iterator[tuple[str, str]]:
    for case in suite.cases:
        if case.bench is not None:
            yield from environment_of(case.bench)
            return
