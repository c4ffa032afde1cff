"""A bench as sections: speeds, curves over shapes, where the time goes, its tables,
and why rows are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fusiondoc.model.bench import (
    EACH_CALL,
    EAGER,
    VARIANTS,
    Bench,
    BenchPhase,
    BenchVariant,
    Ratio,
    memory_ratio,
)
from fusiondoc.rendering.blocks import (
    Column,
    Document,
    Formats,
    NamedValues,
    Remarks,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.picture_blocks import (
    Bar,
    Bars,
    Curves,
    Plots,
    Stack,
    Stacks,
)
from fusiondoc.rendering.units import TERMINAL, milliseconds, percent, ratio, whole
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    Factor,
    Millis,
    Rate,
    ResultDifference,
    Seconds,
    Share,
    Text,
    Tone,
)
from fusiondoc.views import bench_words as words

HUES: Mapping[str, str] = dict(
    zip(
        (*VARIANTS, EACH_CALL),
        ("r7", "r5", "r3", "r2", "r6", "r4", "r0", "r1", "r0"),
    )
)
"""The colour class of each variant, the same in every picture."""

_BUSY, _IDLE = "GPU busy", "GPU idle"

_VARIANTS = (
    Column("variant"),
    Column("warm-up", number=True),
    Column("compile", number=True),
    Column("recompiles", number=True, wanted=3),
    Column("calls", number=True, wanted=7),
    Column("breaks", number=True, wanted=7),
    Column("moves", number=True, wanted=6),
    Column("fallbacks", number=True, wanted=2),
    Column("memory", number=True, wanted=5),
    Column("of eager", number=True, wanted=4),
    Column("off by", number=True),
)


def bench_document(bench: Bench, full: bool = True) -> Document:
    """Return the document of a bench. ``full``: with the times of each variant in
    words."""
    kinds = _kinds(bench)
    goes = (NamedValues(tuple(words.times(bench))),) if full else ()
    sections = (
        Section(
            "speed",
            "Speed",
            "Steps a second, as a loop without synchronisation runs them; the mark is the 95 % interval.",
            tuple(_bars(bench)),
        ),
        Section(
            "shapes", "Over shapes", blocks=(Plots(tuple(_over_shapes(bench))),)
        ),
        *(
            Section(phase, phase, blocks=(_speeds(bench, phase),))
            for phase in words.phases(bench)
        ),
        Section(
            "variants",
            "Compiling, memory, largest difference from eager",
            blocks=(_of_variants(bench),),
        ),
        Section(
            "time",
            "Where the time goes",
            "Of a step with the first inputs: while the GPU is idle it waits for the host. On a CPU it is a"
            " step under the profiler, which is longer than one without.",
            (Stacks(tuple(kinds), tuple(_stacks(bench))), *goes),
        ),
        Section(
            "meaning",
            "What it means",
            blocks=(Remarks(tuple(words.remarks(bench))),),
        ),
        Section(
            "missing",
            "Could not run",
            blocks=(NamedValues(tuple(words.missing(bench))),),
        ),
        environment(bench),
    )
    lead = ran_on(words.interpreters(bench), device_of(bench))
    if bench.inputs:
        lead += f"; inputs {', '.join(bench.inputs)}"
    return Document(
        "bench", bench.target, verdict(bench), lead, tuple(_facts(bench)), sections
    )


def _facts(bench: Bench) -> Iterator[tuple[str, str]]:
    yield "Target", bench.target
    if bench.inputs and not words.changing(bench):
        yield "Inputs", ", ".join(bench.inputs)
    for interpreter in words.interpreters(bench):
        yield (
            "Python",
            f"{interpreter.replace('Python ', '', 1)}, {device_of(bench)}",
        )


def verdict(bench: Bench) -> str:
    """The fastest variant of the last phase with the first shape."""
    phases = words.phases(bench)
    if not phases:
        return "Nothing could be measured"
    phase = phases[-1]
    best: tuple[float, str] | None = None
    for variant in bench.variants:
        timed = words.phase_of(variant, phase)
        if (
            variant.name == EAGER
            or timed is None
            or timed.ratio is None
            or not timed.ratio.differs
        ):
            continue
        if timed.ratio.value > 1 and (best is None or timed.ratio.value > best[0]):
            best = (timed.ratio.value, f"{variant.name}{_under(bench, variant)}")
    if best is None:
        return f"No variant is faster than eager, {phase}"
    return f"{best[1]} is fastest: {ratio(best[0])} the speed of eager, {phase}"


def _under(bench: Bench, variant: BenchVariant) -> str:
    if len(words.interpreters(bench)) > 1:
        return f" in {variant.interpreter}"
    return ""


def ran_on(interpreters: Sequence[str], device: str) -> str:
    """Return the device and the interpreters in one phrase."""
    return f"{device}; {' and '.join(interpreters)}"


def device_of(bench: Bench) -> str:
    """Return the GPU's name, or ``CPU``."""
    return bench.environment.get("gpu") or "CPU"


def speed_cell(found: Ratio | None) -> Cell:
    """Return the cell of a speed relative to eager with its interval, or "no
    difference"."""
    if found is None:
        return Factor(None)
    if not found.differs:
        return Text("no difference")
    return Factor(found.value, found.low, found.high, tone_of(found))


def tone_of(found: Ratio | None) -> Tone:
    """Return the tone: good if faster than eager, doubtful if slower."""
    if found is None or not found.differs:
        return Tone.PLAIN
    if found.value > 1:
        return Tone.GOOD
    return Tone.DOUBTFUL


def _speeds(bench: Bench, phase: str) -> Table:
    """A row for each variant that ran, below its shape and interpreter if there are
    several."""
    rows = []
    for shape, label in words.shapes_of(bench):
        for interpreter in words.interpreters(bench):
            above = _above(bench, label, interpreter)
            for variant in bench.variants:
                timed = words.phase_of(variant, phase, shape)
                if timed is not None and variant.interpreter == interpreter:
                    rows.append(Row(_speed_cells(variant, timed), above))
    return Table(_speed_columns(words.changing(bench)), tuple(rows))


def _speed_columns(changing: bool) -> tuple[Column, ...]:
    """If steps ran with several sizes, the columns on the cost of a new size have
    priority over those on the figures of a step."""
    of_step, of_new_size = (4, 8) if changing else (8, 4)
    return (
        Column("variant"),
        Column("ms", number=True),
        Column("steps/s", number=True, wanted=of_step),
        Column("speed of eager", number=True),
        Column("GPU ms", number=True, wanted=of_step),
        Column("GPU busy", number=True, wanted=9),
        Column("groups", number=True, wanted=of_step),
        Column("first ms", number=True, wanted=of_new_size),
        Column("compiled", number=True, wanted=of_new_size),
        Column("guards", number=True, wanted=of_new_size),
        Column("memory", number=True, wanted=1),
    )


def _above(bench: Bench, label: str, interpreter: str) -> str | None:
    names = []
    if words.changing(bench):
        names.append(label)
    if len(words.interpreters(bench)) > 1:
        names.append(interpreter)
    return ", ".join(names) or None


def _speed_cells(variant: BenchVariant, timed: BenchPhase) -> tuple[Cell, ...]:
    return (
        Text(variant.name),
        Millis(timed.ms.median, timed.ms.low, timed.ms.high),
        Rate(timed.steps_per_s),
        Text("") if variant.name == EAGER else speed_cell(timed.ratio),
        Millis(timed.device_ms),
        Share(timed.busy),
        _figures(words.groups(variant)),
        Millis(timed.first_ms),
        Count(timed.recompiles),
        Count(timed.guard_failures),
        Bytes(timed.peak_bytes),
    )


def _figures(text: str) -> Cell:
    if text != TERMINAL.unknown:
        return Text(text)
    return Count(None)


def _of_variants(bench: Bench) -> Table:
    """Compilation, memory relative to eager, and the largest difference of
    results."""
    rows = []
    several = len(words.interpreters(bench)) > 1
    for variant in bench.variants:
        if not variant.available:
            continue
        cells = (
            Text(variant.name),
            Seconds(variant.warmup_s),
            Seconds(variant.compile_s),
            Count(variant.recompiles),
            _figures(words.by_phase(variant, variant.calls)),
            Count(variant.graph_breaks),
            Bytes(words.moved(variant)),
            Count(variant.fallbacks),
            Bytes(variant.peak_bytes),
            Factor(memory_ratio(bench, variant)),
            ResultDifference(variant.max_difference),
        )
        rows.append(Row(cells, variant.interpreter if several else None))
    return Table(_VARIANTS, tuple(rows))


def _bars(bench: Bench) -> Iterator[Bars]:
    """Steps a second, for each phase and shape."""
    several = len(words.shapes_of(bench)) > 1
    for phase in words.phases(bench):
        for shape, label in words.shapes_of(bench):
            found = []
            for variant in bench.variants:
                timed = words.phase_of(variant, phase, shape)
                if timed is not None:
                    found.append((variant, timed))
            longest = max(
                (1e3 / timed.ms.low for _, timed in found if timed.ms.low),
                default=0.0,
            )
            bars = tuple(
                _speed_bar(bench, variant, timed, longest)
                for variant, timed in found
            )
            if bars:
                yield Bars(phase, label if several else "", bars)


def _speed_bar(
    bench: Bench, variant: BenchVariant, timed: BenchPhase, longest: float
) -> Bar:
    detail = "" if variant.name == EAGER else words.verdict(timed.ratio)
    return Bar(
        f"{variant.name}{_under(bench, variant)}",
        f"{whole(timed.steps_per_s)}/s",
        detail,
        length(timed.steps_per_s, longest),
        length(1e3 / timed.ms.high, longest) if timed.ms.high else 0.0,
        length(1e3 / timed.ms.low, longest) if timed.ms.low else 0.0,
        hue(variant.name),
        tone_of(timed.ratio),
    )


def hue(variant: str) -> str:
    """Return the class of the variant's colour."""
    return HUES.get(variant, "r7")


def length(value: float, longest: float) -> float:
    """Return the length of a bar in per cent of the longest."""
    if longest:
        return round(min(100.0, 100 * value / longest), 2)
    return 0.0


def curves(
    title: str,
    unit: str,
    names: Sequence[str],
    values: Mapping[str, Sequence[float | None]],
) -> Curves | None:
    """Return the values of each variant over names; None unless at least two names
    have a value."""
    measured = set()
    for row in values.values():
        for number, value in enumerate(row):
            if value is not None:
                measured.add(number)
    if len(measured) < 2:
        return None
    rows = tuple((name, tuple(row)) for name, row in values.items())
    return Curves(
        title, unit, tuple(names), rows, tuple(hue(name) for name in values)
    )


def _over_shapes(bench: Bench) -> Iterator[Curves]:
    shapes = words.shapes_of(bench)
    labels = _short([label for _, label in shapes])
    for interpreter in words.interpreters(bench):
        note = f", {interpreter}" if len(words.interpreters(bench)) > 1 else ""
        variants = []
        for variant in bench.variants:
            if variant.interpreter == interpreter:
                variants.append(variant)
        for phase in words.phases(bench):
            times: dict[str, list[float | None]] = {}
            memory: dict[str, list[float | None]] = {}
            for variant in variants:
                timed = []
                for shape, _ in shapes:
                    timed.append(words.phase_of(variant, phase, shape))
                times[variant.name] = [
                    one.ms.median if one is not None else None for one in timed
                ]
                memory[variant.name] = [megabytes_of(one) for one in timed]
            for made in (
                curves(f"Time of a step, {phase}{note}", "ms", labels, times),
                curves(f"Peak memory, {phase}{note}", "MB", labels, memory),
            ):
                if made is not None:
                    yield made


def megabytes_of(timed: BenchPhase | None) -> float | None:
    """Return the peak memory in MB."""
    if timed is not None and timed.peak_bytes:
        return timed.peak_bytes / 1e6
    return None


def _kinds(bench: Bench) -> list[str]:
    """The parts of the stacked bars, in the order of their colours."""
    found: dict[str, None] = {}
    for phase in words.phases(bench):
        for variant in bench.variants:
            timed = words.phase_of(variant, phase)
            found.update((what, None) for what, _ in _parts(timed)[0])
    return list(found)


def _parts(timed: BenchPhase | None) -> tuple[list[tuple[str, float]], float]:
    """Return the kinds of work of a step with their shares, and its milliseconds;
    if the kinds are not known, the shares in which the GPU is busy and idle."""
    if timed is not None and timed.parts:
        return [(part.what, part.share) for part in timed.parts], sum(
            part.ms for part in timed.parts
        )
    if timed is not None and timed.busy is not None:
        return [(_BUSY, timed.busy), (_IDLE, 1 - timed.busy)], timed.ms.median
    return [], 0.0


def _stacks(bench: Bench) -> Iterator[Stack]:
    for phase in words.phases(bench):
        for variant in bench.variants:
            shares, step_ms = _parts(words.phase_of(variant, phase))
            if not shares:
                continue
            parts = []
            for what, share in shares:
                parts.append(
                    (
                        what,
                        share,
                        f"{what} {milliseconds(share * step_ms)}, {percent(share)}",
                    )
                )
            label = f"{variant.name}{_under(bench, variant)}, {phase}"
            yield Stack(label, milliseconds(step_ms), tuple(parts))


def _short(labels: Sequence[str]) -> list[str]:
    """Return the sizes of the first input as labels if they differ in every shape;
    else the numbers of the shapes."""
    sizes = []
    for label in labels:
        sizes.append(label[label.find("[") + 1 : label.find("]")].replace(",", "×"))
    good = all("[" in label for label in labels) and len(set(sizes)) == len(sizes)
    if good:
        return sizes
    return [f"shape {number + 1}" for number in range(len(labels))]


def environment(bench: Bench) -> Section:
    """The machine, the interpreters, rounds and processes."""
    facts = list(bench.environment.items())
    for number, interpreter in enumerate(words.interpreters(bench), 1):
        facts.append((f"interpreter {number}", interpreter))
    timed: list[BenchPhase] = []
    for variant in bench.variants:
        timed.extend(variant.phases)
    if timed:
        facts.append(("rounds", _range([phase.rounds for phase in timed])))
        facts.append(
            (
                "processes of each variant",
                _range([phase.processes for phase in timed]),
            )
        )
    return Section(
        "environment",
        "Environment",
        blocks=(NamedValues(tuple(facts)),),
        formats=Formats.PAGE,
    )


def _range(numbers: Sequence[int]) -> str:
    parts = []
    for number in sorted({min(numbers), max(numbers)}):
        parts.append(str(number))
    return " to ".join(parts)
