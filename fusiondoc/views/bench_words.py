"""The sentences of a bench: verdicts, and remarks on its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusiondoc.comparison.bench_changes import ratio_of_medians
from fusiondoc.model.bench import (
    TRAINING,
    WITHOUT_GROUPS,
    Bench,
    BenchPhase,
    BenchVariant,
    ByPhase,
    Ratio,
)
from fusiondoc.rendering.units import (
    TERMINAL,
    interval,
    milliseconds,
    ratio,
    short_percent,
    size,
)
from fusiondoc.views.step_words import shares

HOST_BOUND = 0.5
"""If the GPU is busy for a smaller share of the time, it waits for the host."""


def called(bench: Bench, variant: BenchVariant) -> str:
    """Return the variant's name, with its torch if there are several
    interpreters."""
    if len(interpreters(bench)) < 2:
        return variant.name
    return f"{variant.name} ({variant.interpreter.partition(', ')[2] or variant.interpreter})"


def verdict(found: Ratio | None) -> str:
    """``1.64x (1.60 to 1.68)``, or that no difference could be shown."""
    if found is None:
        return TERMINAL.unknown
    if not found.differs:
        return "no difference"
    return f"{ratio(found.value)} ({interval(found.low, found.high)})"


def groups(variant: BenchVariant) -> str:
    """Return the groups of the forward plan, and of the backward plan if there is
    one: ``2 + 1``."""
    return by_phase(variant, variant.groups)


def by_phase(variant: BenchVariant, found: ByPhase | None) -> str:
    """Return a figure of both phases, ``2 + 1``; only of the forward phase if no
    other was timed."""
    if found is None or (found.forward is None and found.backward is None):
        return "-"
    forward = "?" if found.forward is None else str(found.forward)
    if all(one.phase != TRAINING for one in variant.phases):
        return forward
    return f"{forward} + {'?' if found.backward is None else found.backward}"


def moved(variant: BenchVariant) -> int | None:
    """Bytes that the kernels and calls of a step read and write, in the phases that
    were timed."""
    found = variant.bytes_moved
    if found is None or found.forward is None:
        return None
    if all(one.phase != TRAINING for one in variant.phases):
        return found.forward
    if found.backward is None:
        return None
    return found.forward + found.backward


def phase_of(
    variant: BenchVariant, phase: str, shape: int = 0
) -> BenchPhase | None:
    """Return the variant's row of a phase with a shape; None if it was not
    timed."""
    for one in variant.phases:
        if one.phase == phase and one.shape == shape:
            return one
    return None


def shapes_of(bench: Bench) -> list[tuple[int, str]]:
    """Return number and name of each shape that any variant was timed with."""
    timed = set()
    for variant in bench.variants:
        for one in variant.phases:
            timed.add(one.shape)
    shapes = []
    for number in sorted(timed):
        shapes.append(
            (
                number,
                bench.shapes[number].label
                if number < len(bench.shapes)
                else ", ".join(bench.inputs),
            )
        )
    return shapes


def changing(bench: Bench) -> bool:
    """True if steps ran with more than one set of sizes."""
    return len(shapes_of(bench)) > 1 or any(one.sizes > 1 for one in bench.shapes)


def phases(bench: Bench) -> list[str]:
    """Return the phases that any variant has, in order."""
    timed: dict[str, None] = {}
    for variant in bench.variants:
        for one in variant.phases:
            timed[one.phase] = None
    return list(timed)


def interpreters(bench: Bench) -> list[str]:
    return list(dict.fromkeys(variant.interpreter for variant in bench.variants))


def times(bench: Bench) -> list[tuple[str, str]]:
    """Return pairs (variant, phase and shape; where the time of its step goes), as
    far as that is known."""
    several = len(interpreters(bench)) > 1
    found = []
    for phase in phases(bench):
        for shape, label in shapes_of(bench):
            for one in bench.variants:
                timed = phase_of(one, phase, shape)
                if timed is not None and timed.parts:
                    names = [one.name, phase, label if changing(bench) else ""]
                    names.append(one.interpreter if several else "")
                    whole = milliseconds(sum(part.ms for part in timed.parts))
                    about = ", ".join(name for name in names if name)
                    found.append((about, f"{whole} a step: {shares(timed.parts)}"))
    return found


def of_processes(timed: Iterable[BenchPhase]) -> list[str]:
    """Return the remark on the number of processes of each variant, and on what the
    intervals include."""
    counts = sorted({one.processes for one in timed})
    if not counts:
        return []
    if counts == [1]:
        return [
            "one process of each variant: the intervals do not show how processes of one program differ"
            " (--processes 2)"
        ]
    least, most = counts[0], counts[-1]
    number = f"{most}" if least == most else f"{least} to {most}"
    text = f"{number} processes of each variant: the intervals include the differences between processes"
    return [f"{text}; that of one process does not" if least == 1 < most else text]


def remarks(bench: Bench) -> list[str]:
    """Return remarks on the numbers: processes, waiting for the host, variants
    without groups."""
    lines = of_processes(
        found for variant in bench.variants for found in variant.phases
    )
    for phase in phases(bench):
        for shape, label in shapes_of(bench):
            waiting = _waiting(bench, phase, shape)
            if waiting:
                about = f"{phase}, {label}" if changing(bench) else phase
                lines.append(
                    f"{about}: bound by the host, the GPU is busy for {', '.join(waiting)} of the time: there"
                    " the ratio shows how fast operators start, not how fast kernels are"
                )
    lines += _moves(bench)
    lines += _hints(bench)
    lines += _notes(bench)
    for variant in bench.variants:
        lines += _on_variant(bench, variant)
    if bench.interrupted:
        lines.append("interrupted: only the rounds that were done count")
    return list(dict.fromkeys(lines))


def _waiting(bench: Bench, phase: str, shape: int) -> list[str]:
    """Return the variants in which the GPU waits for the host, each with its busy
    share."""
    waiting = []
    for variant in bench.variants:
        for timed in variant.phases:
            is_busy = timed.busy is None or timed.busy >= HOST_BOUND
            if (timed.phase, timed.shape) == (phase, shape) and not is_busy:
                waiting.append(
                    f"{called(bench, variant)} {short_percent(timed.busy or 0.0)}"
                )
    return waiting


def _notes(bench: Bench) -> list[str]:
    """Return the notes of variants, each with the variants that have it."""
    notes: dict[str, list[str]] = {}
    for variant in bench.variants:
        for note in _notes_on(variant) if variant.available else ():
            notes.setdefault(note, []).append(called(bench, variant))
    named_notes = []
    for note, names in notes.items():
        named_notes.append(f"{', '.join(dict.fromkeys(names))}: {note}")
    return named_notes


def _notes_on(variant: BenchVariant) -> Iterator[str]:
    if variant.note:
        yield variant.note
    if variant.why_no_difference is not None:
        yield f"no difference from eager is known: {variant.why_no_difference}"
    if variant.why_no_groups is not None:
        yield f"its groups are not known: {variant.why_no_groups}"


def _on_variant(bench: Bench, variant: BenchVariant) -> Iterator[str]:
    """Yield remarks on the groups of a variant: none, fallbacks, recompilations."""
    groups, name = variant.groups, called(bench, variant)
    fuses = variant.available and variant.name not in WITHOUT_GROUPS
    if fuses and groups is not None and groups.forward == 0 and not groups.backward:
        yield f"{name}: no fusion group, so its speed does not measure fusion"
    if variant.fallbacks:
        yield f"{name}: {variant.fallbacks} groups fell back to unfused operators"
    if variant.recompiles:
        times = "once" if variant.recompiles == 1 else f"{variant.recompiles} times"
        since = "for other sizes" if changing(bench) else "after the warm-up"
        yield f"{name}: compiled {times} more {since}"


def _moves(bench: Bench) -> list[str]:
    """Return the gain of changing from the first interpreter to another: the
    fastest variant of each compared, in the last phase with each shape."""
    parts = []
    names = interpreters(bench)
    for phase in phases(bench)[-1:]:
        for shape, label in shapes_of(bench):
            fastest = [_fastest(bench, name, phase, shape) for name in names]
            for one, other in zip(fastest[:1] * len(names), fastest[1:]):
                if one is None or other is None:
                    continue
                found = ratio_of_medians(one[1].ms, other[1].ms)
                if found.differs:
                    times = f"{verdict(found)} as fast"
                else:
                    times = "no difference in speed"
                about = f"{phase}, {label}" if changing(bench) else phase
                both = f"from {_facts(bench, *one)} to {_facts(bench, *other)}"
                parts.append(f"{about}: {both}, the fastest of each: {times}")
    return parts


def _fastest(
    bench: Bench, interpreter: str, phase: str, shape: int
) -> tuple[BenchVariant, BenchPhase] | None:
    timed = []
    for one in bench.variants:
        found = phase_of(one, phase, shape)
        if one.interpreter == interpreter and found is not None:
            timed.append((one, found))
    return min(timed, key=lambda pair: pair[1].ms.median, default=None)


def _facts(bench: Bench, variant: BenchVariant, timed: BenchPhase) -> str:
    """``none (torch 2.1.2), 0.389 ms, 512 MB, groups 1 + 1``."""
    facts = [called(bench, variant), f"{milliseconds(timed.ms.median)}"]
    memory = (
        timed.peak_bytes if timed.peak_bytes is not None else variant.peak_bytes
    )
    if memory is not None:
        facts.append(size(memory))
    if groups(variant) != "-":
        facts.append(f"groups {groups(variant)}")
    return ", ".join(facts)


def _hints(bench: Bench) -> list[str]:
    """Return the advice that helps more than fusion (``BenchPhase.hint``), for each
    interpreter: of the first variant (eager, if it ran) in the last phase that has
    it."""
    found: dict[str, str] = {}
    for phase in phases(bench):
        for one in reversed(bench.variants):
            for timed in one.phases:
                if timed.phase == phase and timed.hint is not None:
                    found[one.interpreter] = f"{one.name}, {phase}: {timed.hint}"
    several = len(interpreters(bench)) > 1
    return [f"{name}: {text}" if several else text for name, text in found.items()]


def missing(bench: Bench) -> list[tuple[str, str]]:
    """Return pairs (variant, why it or one of its phases could not run)."""
    several = len(interpreters(bench)) > 1
    variants = []
    for one in bench.variants:
        if one.reason is not None:
            variants.append(
                (
                    f"{one.name}, {one.interpreter}" if several else one.name,
                    one.reason,
                )
            )
    return variants
