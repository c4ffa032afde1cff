"""A suite as sections: a table for each measure (cases down, variants across),
pictures of them, and the published figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from fusiondoc.model import count, dataclass
from fusiondoc.model.bench import (
    EACH_CALL,
    EAGER,
    MEMORY,
    WITHOUT_GROUPS,
    Bench,
    BenchPhase,
    BenchVariant,
    Beside,
    Published,
    Suite,
    SuiteCase,
    memory_ratio,
    phase_of,
)
from fusiondoc.rendering.blocks import (
    Column,
    Document,
    NamedValues,
    Remarks,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.picture_blocks import Bar, Bars, Curves, Plots
from fusiondoc.rendering.units import interval, milliseconds, ratio
from fusiondoc.rendering.values import (
    UNKNOWN,
    Bytes,
    Cell,
    Count,
    Factor,
    Millis,
    Share,
    Text,
    Tone,
)
from fusiondoc.views import bench_words as words
from fusiondoc.views.bench_sections import (
    curves,
    device_of,
    environment,
    hue,
    length,
    megabytes_of,
    ran_on,
    tone_of,
)

SAME = "≈1"
"""The cell of a speed whose 95 % interval contains 1."""

_MOST_MEMORY = 1.005
"""Memory above this multiple of eager's counts as more."""

Measure = Callable[[Bench, BenchVariant], "Cell | None"]
"""The cell of a variant; None if nothing was measured."""


def suite_document(suite: Suite) -> Document:
    """Return the document of all cases of the suite."""
    sections = (
        Section(
            "speed",
            "Speed",
            "Speed of eager; the line is the 95 % interval.",
            tuple(_ratios(suite)),
        ),
        Section(
            "shapes", "Over shapes", blocks=(Plots(tuple(_over_sizes(suite))),)
        ),
        *grids(suite),
        Section(
            "meaning", "What it means", blocks=(Remarks(tuple(remarks(suite))),)
        ),
        *_published(suite),
        Section(
            "missing", "Could not run", blocks=(NamedValues(tuple(missing(suite))),)
        ),
        *[
            environment(case.bench)
            for case in suite.cases
            if case.bench is not None
        ][:1],
    )
    sizes = f"{'small' if suite.small else 'full'} sizes"
    ran = [case for case in suite.cases if case.bench is not None]
    lead = f"{count(len(ran), 'case')}, {sizes}; {ran_on(suite.interpreters(), device(suite))}"
    facts = [("Suite", f"{suite.suite}, {sizes}")]
    for interpreter in suite.interpreters():
        facts.append(
            ("Python", f"{interpreter.replace('Python ', '', 1)}, {device(suite)}")
        )
    return Document(
        "bench",
        f"suite {suite.suite}",
        verdict(suite),
        lead,
        tuple(facts),
        sections,
    )


def device(suite: Suite) -> str:
    """Return the GPU's name, or ``CPU``."""
    for case in suite.cases:
        if case.bench is not None and case.bench.environment.get("gpu"):
            return device_of(case.bench)
    return "CPU"


def verdict(suite: Suite) -> str:
    """Return the fastest variant of any case in a sentence."""
    best: tuple[float, str] | None = None
    for case, variant in suite.variants():
        for timed in variant.phases:
            if (
                variant.name != EAGER
                and timed.ratio is not None
                and timed.ratio.differs
            ):
                where = f"{variant.name}, {case.name}, {timed.phase}"
                best = max(best or (0.0, ""), (timed.ratio.value, where))
    if best is None or best[0] <= 1:
        return "No variant is faster than eager in any case"
    return f"The most: {ratio(best[0])} the speed of eager ({best[1]})"


def grids(suite: Suite) -> Iterator[Section]:
    """Yield speeds of each phase, then GPU time, memory, busy share, groups and
    compilations, as far as they are known."""
    for phase in _phases(suite):
        note = f"speed of eager; {SAME}: no difference, the 95 % interval holds 1"
        yield _grid(
            suite,
            phase,
            note,
            _speed(phase),
            Column("eager ms", number=True),
            _eager_ms(phase),
        )
    for phase in _phases(suite):
        note = "of a step, from a profiled run: how much less than eager's"
        eager = Column("eager ms", number=True)
        yield _grid(
            suite,
            f"GPU time, {phase}",
            note,
            _device_time(phase),
            eager,
            _eager_device_ms(phase),
        )
    yield _grid(
        suite,
        "Peak memory",
        "of eager's",
        _memory,
        Column("eager", number=True),
        _eager_memory,
    )
    for phase in _phases(suite):
        note, busy = "share of a step's time", _busy(phase)
        yield _grid(
            suite,
            f"GPU busy, {phase}",
            note,
            busy,
            Column("eager", number=True),
            busy,
        )
    yield _grid(suite, "Fusion groups", "forward, and + backward", _groups)
    yield _grid(suite, "Compiled again", "times after the warm-up", _recompiles)


def _phases(suite: Suite) -> list[str]:
    phases: dict[str, None] = {}
    for _, variant in suite.variants():
        for phase in variant.phases:
            phases[phase.phase] = None
    return list(phases)


def _grid(
    suite: Suite,
    title: str,
    note: str,
    measure: Measure,
    eager_column: Column | None = None,
    eager_measure: Measure | None = None,
) -> Section:
    """Section of a measure of every variant in every case. Variants and cases
    without any value are left out."""
    names = _measured_variants(suite, measure)
    several = len(suite.interpreters()) > 1
    columns = [Column("case")]
    if several:
        columns.append(Column("torch"))
    if eager_column is not None:
        columns.append(eager_column)
    columns += [Column(name, number=True) for name in names]
    rows = []
    for case in suite.cases:
        for interpreter, variants in _by_interpreter(case):
            assert case.bench is not None
            found = _measured(case.bench, variants, names, measure)
            eager = None
            if eager_measure is not None:
                (eager,) = _measured(case.bench, variants, [EAGER], eager_measure)
            if not any(found) and eager is None:
                continue
            cells: list[Cell] = [Text(case.sizes)]
            if several:
                cells.append(Text(_torch(suite, interpreter), Tone.DIM))
            if eager_column is not None:
                cells.append(eager or UNKNOWN)
            rows.append(
                Row((*cells, *(cell or UNKNOWN for cell in found)), case.block)
            )
    key = title.lower().replace(", ", "-").replace(" ", "-")
    return Section(
        key, title, note, (Table(tuple(columns), tuple(rows) if names else ()),)
    )


def _measured(
    bench: Bench,
    variants: Mapping[str, BenchVariant],
    names: Sequence[str],
    measure: Measure,
) -> list[Cell | None]:
    """Return the measure of each variant; None if there is none."""
    cells = []
    for name in names:
        cells.append(measure(bench, variants[name]) if name in variants else None)
    return cells


def _measured_variants(suite: Suite, measure: Measure) -> list[str]:
    names: dict[str, None] = {}
    for case, variant in suite.variants():
        if (
            variant.name != EAGER
            and case.bench is not None
            and measure(case.bench, variant) is not None
        ):
            names[variant.name] = None
    order = dict.fromkeys(variant.name for _, variant in suite.variants())
    return [name for name in order if name in names]


def _by_interpreter(
    case: SuiteCase,
) -> Iterator[tuple[str, dict[str, BenchVariant]]]:
    found: dict[str, dict[str, BenchVariant]] = {}
    for variant in case.bench.variants if case.bench is not None else ():
        found.setdefault(variant.interpreter, {})[variant.name] = variant
    yield from found.items()


def _of_phase(phase: str, cell: Callable[[BenchPhase], Cell | None]) -> Measure:
    """A measure of the timed phase of a variant."""

    def measure(_: Bench, variant: BenchVariant) -> Cell | None:
        timed = phase_of(variant, phase)
        if timed is None:
            return None
        return cell(timed)

    return measure


def _eager_ms(phase: str) -> Measure:
    return _of_phase(phase, lambda timed: Millis(timed.ms.median))


def _eager_device_ms(phase: str) -> Measure:
    return _of_phase(
        phase,
        lambda timed: (
            Millis(timed.device_ms) if timed.device_ms is not None else None
        ),
    )


def _speed(phase: str) -> Measure:
    def cell(timed: BenchPhase) -> Cell | None:
        speed = timed.ratio
        if speed is None:
            return None
        if not speed.differs:
            return Text(SAME)
        return Factor(speed.value, speed.low, speed.high, tone_of(speed))

    return _of_phase(phase, cell)


def _device_time(phase: str) -> Measure:
    def measure(bench: Bench, variant: BenchVariant) -> Cell | None:
        eager = bench.eager(variant.interpreter)
        timed = phase_of(variant, phase)
        against = phase_of(eager, phase) if eager is not None else None
        if (
            timed is None
            or against is None
            or not timed.device_ms
            or not against.device_ms
        ):
            return None
        return Factor(against.device_ms / timed.device_ms)

    return measure


def _eager_memory(_: Bench, eager: BenchVariant) -> Cell | None:
    if eager.peak_bytes is None:
        return None
    return Bytes(eager.peak_bytes)


def _memory(bench: Bench, variant: BenchVariant) -> Cell | None:
    found = memory_ratio(bench, variant)
    if found is None:
        return None
    return Factor(found, tone=Tone.DOUBTFUL if found > _MOST_MEMORY else Tone.PLAIN)


def _busy(phase: str) -> Measure:
    def cell(timed: BenchPhase) -> Cell | None:
        if timed.busy is None:
            return None
        return Share(
            timed.busy,
            Tone.DOUBTFUL if timed.busy < words.HOST_BOUND else Tone.PLAIN,
        )

    return _of_phase(phase, cell)


def _groups(_: Bench, variant: BenchVariant) -> Cell | None:
    text = words.groups(variant)
    if text == "-" or not variant.available:
        return None
    return Text(text)


def _recompiles(_: Bench, variant: BenchVariant) -> Cell | None:
    if variant.recompiles:
        return Count(variant.recompiles, Tone.DOUBTFUL)
    return None


def _torch(suite: Suite, interpreter: str) -> str:
    return interpreter_short(suite, interpreter).replace("torch ", "", 1)


def interpreter_short(suite: Suite, interpreter: str) -> str:
    """Return ``torch 2.1.2`` if no other interpreter has it; else the full name."""
    short = {one: one.rpartition(", ")[2] for one in suite.interpreters()}
    if list(short.values()).count(short[interpreter]) == 1:
        return short[interpreter]
    return interpreter


def _ratios(suite: Suite) -> Iterator[Bars]:
    """Yield bars for each case, phase and interpreter, if a block has one or two
    cases; curves show more."""
    counts: dict[str, int] = {}
    for case in suite.cases:
        counts[case.block] = counts.get(case.block, 0) + 1
    several = len(suite.interpreters()) > 1
    for case in suite.cases:
        bench = case.bench
        if bench is None or counts[case.block] > 2:
            continue
        for phase in words.phases(bench):
            for interpreter in words.interpreters(bench):
                bars = _ratio_bars(bench, phase, interpreter)
                where = ""
                if several:
                    where = f", {interpreter_short(suite, interpreter)}"
                if bars:
                    yield Bars(case.name, f"{phase}{where}", bars)


def _ratio_bars(bench: Bench, phase: str, interpreter: str) -> tuple[Bar, ...]:
    found = []
    for variant in bench.variants:
        timed = words.phase_of(variant, phase)
        if (
            timed is not None
            and timed.ratio is not None
            and variant.interpreter == interpreter
        ):
            found.append((variant, timed, timed.ratio))
    longest = max((speed.high for _, _, speed in found), default=0.0)
    bars = []
    for variant, timed, speed in found:
        bars.append(
            Bar(
                variant.name,
                milliseconds(timed.ms.median),
                "" if variant.name == EAGER else words.verdict(speed),
                length(speed.value, longest),
                length(speed.low, longest),
                length(speed.high, longest),
                hue(variant.name),
                tone_of(speed),
            )
        )
    return tuple(bars)


def _over_sizes(suite: Suite) -> Iterator[Curves]:
    """Time and memory over the sizes of a block, for each dtype, phase and
    interpreter."""
    families: dict[tuple[str, str], list[tuple[str, Bench]]] = {}
    for case in suite.cases:
        if case.bench is not None:
            shape, _, dtype = case.sizes.partition(" ")
            families.setdefault((case.block, dtype), []).append((shape, case.bench))
    several = len(suite.interpreters()) > 1
    for (block, dtype), members in families.items():
        if len(members) < 3:
            continue
        phases = list(
            dict.fromkeys(
                phase for _, bench in members for phase in words.phases(bench)
            )
        )
        for interpreter in suite.interpreters():
            where = f", {interpreter_short(suite, interpreter)}" if several else ""
            for phase in phases:
                title = f"{block} {dtype}".strip() + f", {phase}{where}"
                yield from _family(members, interpreter, phase, title)


def _family(
    members: list[tuple[str, Bench]], interpreter: str, phase: str, title: str
) -> Iterator[Curves]:
    timed = [_by_variant(bench, interpreter, phase) for _, bench in members]
    names = list(dict.fromkeys(name for row in timed for name in row))
    times: dict[str, list[float | None]] = {}
    memory: dict[str, list[float | None]] = {}
    for name in names:
        times[name] = [
            row[name].ms.median if name in row else None for row in timed
        ]
        memory[name] = [megabytes_of(row.get(name)) for row in timed]
    labels = [shape for shape, _ in members]
    for made in (
        curves(f"Time: {title}", "ms", labels, times),
        curves(f"Memory: {title}", "MB", labels, memory),
    ):
        if made is not None:
            yield made


def _by_variant(
    bench: Bench, interpreter: str, phase: str
) -> dict[str, BenchPhase]:
    found = {}
    for variant in bench.variants:
        timed = words.phase_of(variant, phase)
        if variant.interpreter == interpreter and timed is not None:
            found[variant.name] = timed
    return found


@dataclass(frozen=True)
class Figure:
    """A published figure, and the measurements here: (interpreter, value and
    interval)."""

    name: str
    published: float
    here: tuple[tuple[str, str], ...]
    measured_on: str


def figures(suite: Suite) -> list[Figure]:
    """Return every published figure of a case that ran here."""
    found: dict[Published, list[Beside]] = {}
    for one in suite.beside():
        found.setdefault(one.published, []).append(one)
    made = []
    for published, measured in found.items():
        case = "the most" if "*" in published.case else published.case
        name = f"{case}, {published.variant}, {published.phase}"
        if published.measure == MEMORY:
            name += ", memory"
        here = []
        for one in measured:
            here.append((interpreter_short(suite, one.interpreter), _here(one)))
        made.append(Figure(name, published.value, tuple(here), published.what))
    return made


def _here(one: Beside) -> str:
    text = ratio(one.value)
    if one.low is not None and one.high is not None:
        text += f" ({interval(one.low, one.high)})"
    if "*" in one.published.case:
        return f"{text} with {one.case}"
    return text


def _published(suite: Suite) -> Iterator[Section]:
    several = len(suite.interpreters()) > 1
    rows = []
    found = figures(suite)
    notes = list(dict.fromkeys(figure.measured_on for figure in found))
    for figure in found:
        parts = []
        for where, value in figure.here:
            parts.append(f"{where}: {value}" if several else value)
        here = "; ".join(parts)
        note = f"[{notes.index(figure.measured_on) + 1}]"
        rows.append(
            Row(
                (
                    Text(figure.name),
                    Factor(figure.published),
                    Text(note, Tone.DIM),
                    Text(here),
                )
            )
        )
    columns = (
        Column("figure"),
        Column("published", number=True),
        Column(""),
        Column("here"),
    )
    measured_on = NamedValues(
        tuple((f"[{number}]", note) for number, note in enumerate(notes, 1))
    )
    table = Table(columns, tuple(rows))
    yield Section(
        "published", "Published, and here", "of eager's", (table, measured_on)
    )
    if found:
        yield Section(
            "why", "Why they differ", blocks=(Remarks(tuple(suite.why_different)),)
        )


def remarks(suite: Suite) -> list[str]:
    """Return remarks on the numbers."""
    lines = words.of_processes(
        phase for _, variant in suite.variants() for phase in variant.phases
    )
    if suite.small:
        lines.append(
            "sizes are small, for a CPU; the authors' are for a GPU, and so are their figures (--full)"
        )
    known = (
        _host_bound(suite),
        _without_groups(suite),
        _compiled_in_each_call(suite),
    )
    lines += [line for line in known if line is not None]
    if suite.interrupted:
        lines.append(
            "interrupted: only the cases and rounds that were done are here"
        )
    return lines


def _compiled_in_each_call(suite: Suite) -> str | None:
    each = []
    for _, variant in suite.variants():
        if variant.name == EACH_CALL and variant.recompiles:
            each.append(variant)
    if not each:
        return None
    most = max(variant.recompiles or 0 for variant in each)
    is_never_fused = all(
        variant.groups is not None and variant.groups.forward == 0
        for variant in each
    )
    reason = ", so no graph lives long enough to be fused" if is_never_fused else ""
    return (
        f"{EACH_CALL}: wrapping in every call compiles in every call (up to {most:,} times in the rounds"
        f" of a case){reason}"
    )


def _host_bound(suite: Suite) -> str | None:
    known = []
    for _, variant in suite.variants():
        for timed in variant.phases:
            if timed.busy is not None and timed.phase == _phases(suite)[-1]:
                known.append((variant.name, timed.busy))
    waiting = [name for name, busy in known if busy < words.HOST_BOUND]
    if not waiting:
        return None
    return (
        f"bound by the host: in {len(waiting)} of {len(known)} measurements of {_phases(suite)[-1]} the GPU"
        f" is busy for less than half of a step ({', '.join(dict.fromkeys(waiting))}); there a ratio shows"
        " how fast operators start, not how fast kernels are"
    )


def _without_groups(suite: Suite) -> str | None:
    without = []
    for _, variant in suite.variants():
        found = variant.groups
        if (
            not variant.available
            or variant.name in (*WITHOUT_GROUPS, EACH_CALL)
            or found is None
        ):
            continue
        if found.forward == 0 and not found.backward:
            without.append(variant.name)
    if not without:
        return None
    names = [f"{name} in {without.count(name)}" for name in dict.fromkeys(without)]
    return f"no fusion group: {', '.join(names)} of the cases; there the speed does not measure fusion"


def missing(suite: Suite) -> list[tuple[str, str]]:
    """Return pairs (variant, reason) of variants that could not run: one row for
    each reason, with its cases."""
    found: dict[tuple[str, str], list[str]] = {}
    several = len(suite.interpreters()) > 1
    for case, variant in suite.variants():
        if variant.reason is not None:
            short = interpreter_short(suite, variant.interpreter)
            name = f"{variant.name}, {short}" if several else variant.name
            found.setdefault((name, variant.reason), []).append(case.name)
    for case in suite.cases:
        if case.bench is None and case.reason is not None:
            found.setdefault(("every variant", case.reason), []).append(case.name)
    ran = sum(case.bench is not None for case in suite.cases)
    rows = []
    for (name, reason), cases in found.items():
        rows.append(
            (
                name,
                reason if len(cases) == ran else f"{reason} ({', '.join(cases)})",
            )
        )
    return rows
