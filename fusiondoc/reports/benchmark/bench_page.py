"""A bench, or a suite, as one self-contained page: plots as SVG, no script, no network, light and dark. Of a
suite a bar for each variant, lines over the sizes of a block, and all grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.model import count
from fusiondoc.model.bench import EAGER, Bench, BenchPhase, BenchVariant, Suite, memory_ratio
from fusiondoc.rendering.units import (
    TERMINAL,
    difference,
    digits,
    interval,
    milliseconds,
    ratio,
    seconds,
    short_percent,
    size,
    whole,
)
from fusiondoc.reports import benchmark as wordings
from fusiondoc.reports.benchmark import suite_grids
from fusiondoc.reports.benchmark.page_parts import (
    Bar,
    Bars,
    Lines,
    Page,
    PageTable,
    Row,
    Section,
    Stack,
    drawn,
    hue,
    hue_of,
    lines,
    stack,
)
from fusiondoc.reports.benchmark.suite_grids import ABSENT, Cell, Grid

_BUSY, _IDLE = "GPU busy", "GPU idle"


def render(bench: Bench) -> str:
    """The page as HTML."""
    return drawn(_of_bench(bench))


def _of_bench(bench: Bench) -> Page:
    kinds = _kinds(bench)
    sections = (
        Section(
            "speed",
            "Speed",
            "Steps a second, as a loop without synchronisation runs them; the mark is the 95 % interval.",
            bars=tuple(_bars(bench)),
        ),
        Section("shapes", "Over shapes", lines=tuple(_over_shapes(bench))),
        Section(
            "time",
            "Where the time goes",
            "Of a step with the first inputs: while the GPU is idle it waits for the host. On a CPU it is a"
            " step under the profiler, which is longer than one without.",
            stacks=tuple(_stacks(bench, kinds)),
            legend=tuple((what, hue_of(what, kinds)) for what in kinds),
        ),
        Section("meaning", "What it means", said=tuple(wordings.remarks(bench))),
        Section("numbers", "Numbers", tables=tuple(_tables(bench))),
        Section("missing", "Could not run", facts=tuple(wordings.missing(bench))),
        Section("environment", "Environment", facts=tuple(environment_of(bench))),
    )
    where = where_of(wordings.interpreters(bench), device_of(bench))
    where += f"; inputs {', '.join(bench.inputs)}" if bench.inputs else ""
    return Page(bench.target, verdict(bench), where, tuple(one for one in sections if one.holds))


def verdict(bench: Bench) -> str:
    """What is fastest, of the last phase and the first shape."""
    names = wordings.phases(bench)
    if not names:
        return "Nothing could be measured"
    phase = names[-1]
    best: tuple[float, str] | None = None
    for one in bench.variants:
        found = wordings.phase_of(one, phase)
        if one.name == EAGER or found is None or found.ratio is None or not found.ratio.differs:
            continue
        if found.ratio.value > 1 and (best is None or found.ratio.value > best[0]):
            best = (found.ratio.value, f"{one.name}{_under(bench, one)}")
    if best is None:
        return f"No variant is faster than eager, {phase}"
    return f"{best[1]} is fastest: {ratio(best[0])} the speed of eager, {phase}"


def _under(bench: Bench, one: BenchVariant) -> str:
    return f" in {one.interpreter}" if len(wordings.interpreters(bench)) > 1 else ""


def where_of(interpreters: Sequence[str], device: str) -> str:
    """On what it ran."""
    return f"{device}; {' and '.join(interpreters)}"


def device_of(bench: Bench) -> str:
    """The GPU's name, or that there is none."""
    return bench.environment.get("gpu") or "CPU"


def _bars(bench: Bench) -> Iterator[Bars]:
    several = len(wordings.shapes_of(bench)) > 1
    for phase in wordings.phases(bench):
        for shape, label in wordings.shapes_of(bench):
            found = [
                (one, timed)
                for one in bench.variants
                for timed in [wordings.phase_of(one, phase, shape)]
                if timed is not None
            ]
            longest = max((1e3 / timed.ms.low for _, timed in found), default=0.0)
            for interpreter in wordings.interpreters(bench):
                bars = [_bar(one, timed, longest) for one, timed in found if one.interpreter == interpreter]
                if bars:
                    note = [label] if several else []
                    note += [interpreter] if len(wordings.interpreters(bench)) > 1 else []
                    yield Bars(phase, ", ".join(note), tuple(bars))


def _bar(one: BenchVariant, timed: BenchPhase, longest: float) -> Bar:
    detail = "" if one.name == EAGER else wordings.verdict(timed.ratio)
    return Bar(
        one.name,
        f"{whole(timed.steps_per_s)}/s",
        detail,
        share_of(timed.steps_per_s, longest),
        share_of(1e3 / timed.ms.high, longest),
        share_of(1e3 / timed.ms.low, longest),
        hue(one.name),
        style_of(timed),
    )


def style_of(timed: BenchPhase) -> str:
    """The class of a speed: "faster", "slower" or none."""
    if timed.ratio is None or not timed.ratio.differs:
        return ""
    return "faster" if timed.ratio.value > 1 else "slower"


def share_of(value: float, longest: float) -> float:
    """Per cent of the longest bar."""
    return round(min(100.0, 100 * value / longest), 2) if longest else 0.0


def _over_shapes(bench: Bench) -> Iterator[Lines]:
    shapes = wordings.shapes_of(bench)
    labels = _short([label for _, label in shapes])
    for interpreter in wordings.interpreters(bench):
        note = f", {interpreter}" if len(wordings.interpreters(bench)) > 1 else ""
        rows = [one for one in bench.variants if one.interpreter == interpreter]
        for phase in wordings.phases(bench):
            timed = {one.name: [wordings.phase_of(one, phase, shape) for shape, _ in shapes] for one in rows}
            times = {name: [one.ms.median if one else None for one in row] for name, row in timed.items()}
            memory = {
                name: [one.peak_bytes / 1e6 if one and one.peak_bytes else None for one in row]
                for name, row in timed.items()
            }
            for plot in (
                lines(f"Time of a step, {phase}{note}", "ms", labels, times),
                lines(f"Peak memory, {phase}{note}", "MB", labels, memory),
            ):
                if plot is not None:
                    yield plot


def _kinds(bench: Bench) -> list[str]:
    """What the stacked bars have, in the order of their colours."""
    found: dict[str, None] = {}
    for phase in wordings.phases(bench):
        for one in bench.variants:
            timed = wordings.phase_of(one, phase)
            if timed is not None and timed.parts:
                found.update(dict.fromkeys(part.what for part in timed.parts))
            elif timed is not None and timed.busy is not None:
                found.update(dict.fromkeys((_BUSY, _IDLE)))
    return list(found)


def _stacks(bench: Bench, kinds: Sequence[str]) -> Iterator[Stack]:
    """The kinds of work of a step; where only that is known, how long the GPU is busy."""
    for phase in wordings.phases(bench):
        for one in bench.variants:
            timed = wordings.phase_of(one, phase)
            if timed is not None and timed.parts:
                shares = [(part.what, part.share) for part in timed.parts]
                whole = sum(part.ms for part in timed.parts)
            elif timed is not None and timed.busy is not None:
                shares, whole = [(_BUSY, timed.busy), (_IDLE, 1 - timed.busy)], timed.ms.median
            else:
                continue
            parts = [
                (what, share, f"{what} {milliseconds(share * whole)}, {short_percent(share)}")
                for what, share in shares
            ]
            ms = milliseconds(whole)
            yield stack(f"{one.name}{_under(bench, one)}, {phase}", ms, parts, kinds)


def _short(labels: Sequence[str]) -> list[str]:
    """Sizes of the first input, if that tells the shapes apart; else their numbers."""
    sizes = [label[label.find("[") + 1 : label.find("]")].replace(",", "×") for label in labels]
    good = all("[" in label for label in labels) and len(set(sizes)) == len(sizes)
    return sizes if good else [f"shape {number + 1}" for number in range(len(labels))]


def _tables(bench: Bench) -> Iterator[PageTable]:
    several = len(wordings.shapes_of(bench)) > 1
    heads = [("Variant", ""), *([("Inputs", "")] if several else []), ("ms", "n"), ("95 % interval", "n")]
    heads += [("Steps/s", "n"), ("Speed of eager", "n"), ("GPU ms, busy", "n"), ("First step", "n")]
    heads += [("Compiled", "n"), ("Guards failed", "n"), ("Peak memory", "n")]
    for phase in wordings.phases(bench):
        rows: list[Row] = []
        for interpreter in wordings.interpreters(bench):
            above: str | None = interpreter
            for one in bench.variants:
                if one.interpreter != interpreter:
                    continue
                for shape, label in wordings.shapes_of(bench):
                    timed = wordings.phase_of(one, phase, shape)
                    if timed is not None:
                        rows.append(Row(_cells(one, timed, label if several else None), above))
                        above = None
        yield PageTable(heads, tuple(rows), phase)
    heads = [("Variant", ""), ("Groups", "n"), ("Warm-up", "n"), ("Compiling", "n"), ("Recompiled", "n")]
    heads += [("Fallbacks", "n"), ("Memory of eager", "n"), ("Largest difference", "n")]
    yield PageTable(heads, tuple(_of_variants(bench)), "Compiling, memory, largest difference from eager")


def _cells(one: BenchVariant, timed: BenchPhase, label: str | None) -> tuple[Cell, ...]:
    against = "" if one.name == EAGER else wordings.verdict(timed.ratio)
    first = TERMINAL.known(timed.first_ms, milliseconds)
    memory = TERMINAL.known(timed.peak_bytes, size)
    return (
        Cell(one.name),
        *([Cell(label)] if label is not None else []),
        Cell(digits(timed.ms.median)),
        Cell(interval(timed.ms.low, timed.ms.high, digits)),
        Cell(whole(timed.steps_per_s)),
        Cell(against, style_of(timed)),
        Cell(_of_gpu(timed)),
        Cell(first),
        Cell(TERMINAL.count(timed.recompiles)),
        Cell(TERMINAL.count(timed.guard_failures)),
        Cell(memory),
    )


def _of_gpu(timed: BenchPhase) -> str:
    """``0.276, 94%``."""
    if timed.device_ms is None:
        return TERMINAL.known(timed.busy, short_percent)
    return f"{digits(timed.device_ms)}, {TERMINAL.known(timed.busy, short_percent)}"


def _of_variants(bench: Bench) -> Iterator[Row]:
    above: str | None = None
    for one in bench.variants:
        if not one.available:
            continue
        memory = memory_ratio(bench, one)
        apart = TERMINAL.known(one.max_difference, difference)
        cells = (
            Cell(one.name),
            Cell(wordings.groups(one)),
            Cell(TERMINAL.known(one.warmup_s, seconds)),
            Cell(TERMINAL.known(one.compile_s, seconds)),
            Cell(TERMINAL.count(one.recompiles)),
            Cell(TERMINAL.count(one.fallbacks)),
            ABSENT if memory is None else Cell(ratio(memory)),
            Cell(apart),
        )
        yield Row(cells, one.interpreter if one.interpreter != above else None)
        above = one.interpreter


def environment_of(bench: Bench) -> Iterator[tuple[str, str]]:
    """Names and values."""
    yield from bench.environment.items()
    for number, one in enumerate(wordings.interpreters(bench), 1):
        yield f"interpreter {number}", one
    rounds = {timed.rounds for one in bench.variants for timed in one.phases}
    if rounds:
        yield "rounds", " to ".join(str(one) for one in sorted({min(rounds), max(rounds)}))
    processes = {timed.processes for one in bench.variants for timed in one.phases}
    if processes:
        both = sorted({min(processes), max(processes)})
        yield "processes of each variant", " to ".join(str(one) for one in both)


def render_suite(suite: Suite) -> str:
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
    return f"The most: {ratio(best[0])} the speed of eager ({best[1]})"


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
    ms = milliseconds(timed.ms.median)
    detail = "" if one.name == EAGER else wordings.verdict(timed.ratio)
    low, high = share_of(timed.ratio.low, longest), share_of(timed.ratio.high, longest)
    return Bar(
        one.name,
        ms,
        detail,
        share_of(timed.ratio.value, longest),
        low,
        high,
        hue(one.name),
        style_of(timed),
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
