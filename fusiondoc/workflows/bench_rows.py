"""The rows of a bench: the measured times and reported facts of each variant, phase
by phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fusiondoc.model.bench import (
    EAGER,
    BenchPhase,
    BenchVariant,
    ByPhase,
    Ratio,
    measured_in,
    of_processes,
)
from fusiondoc.runner.bench_child import (
    Benched,
    BuiltVariant,
    Inspected,
    WarmedShape,
)
from fusiondoc.runner.interpreter import Interpreter
from fusiondoc.workflows.bench_compiled import CompiledCounts, why_not_known
from fusiondoc.workflows.bench_turns import VariantRun


def label_among(
    interpreter: Interpreter, interpreters: Sequence[Interpreter]
) -> str:
    """Return ``Python 3.10, torch 2.1.2``; with the path if two interpreters have
    the same versions."""
    text = _versions(interpreter)
    same = [other for other in interpreters if _versions(other) == text]
    if len(same) == 1:
        return text
    return f"{text} ({interpreter.path})"


def _versions(interpreter: Interpreter) -> str:
    return f"Python {interpreter.python}, torch {interpreter.torch}"


def variant_row(
    name: str,
    label: str,
    present: Mapping[str, VariantRun],
    done: Mapping[str, Sequence[VariantRun]],
) -> BenchVariant:
    """One row of the table.

    Args:
        label: of the interpreter.
        present: the runs of the variant, by phase.
        done: all runs, by phase.
    """
    phases: list[BenchPhase] = []
    ready: list[WarmedShape] = []
    inspected: list[Inspected] = []
    benched: list[Benched] = []
    for phase, run in present.items():
        eager = _eager_of(done[phase], run.interpreter)
        for shape in run.measured_shapes():
            phases.append(_measured_phase(phase, shape, run, eager))
        ready += run.child.ready.values()
        inspected += run.inspected.values()
        if run.benched is not None:
            benched.append(run.benched)
    recompiles = [record.recompiles for record in ready]
    recompiles += [record.recompiles for record in benched]
    chosen = _chosen(list(present.values()))
    compiled = _compiled(list(present.values()))
    return BenchVariant(
        name=name,
        interpreter=label,
        available=bool(phases),
        reason=_reason(present, measured=bool(phases)),
        phases=tuple(phases),
        warmup_s=_sum(of_shape.warmup_s for of_shape in ready),
        compile_s=_sum(of_shape.compile_s for of_shape in ready),
        recompiles=_whole_sum(recompiles),
        peak_bytes=_max(of_shape.peak_bytes for of_shape in inspected),
        groups=compiled.groups or _groups(benched),
        fallbacks=_whole_sum(run.besides.fallbacks for run in present.values()),
        max_difference=_max(of_shape.max_difference for of_shape in ready),
        note=chosen.note if chosen is not None else None,
        why_no_difference=_why_no_difference(ready),
        calls=compiled.calls,
        bytes_moved=compiled.bytes_moved,
        graph_breaks=compiled.graph_breaks,
        why_no_groups=_why_no_groups(list(present.values())),
    )


def _compiled(runs: Sequence[VariantRun]) -> CompiledCounts:
    """Return the counts of torch.compile in the last phase that has some: with
    gradients the forward graph differs."""
    known = (run.besides.compiled for run in reversed(runs))
    for counts in known:
        if counts.groups is not None:
            return counts
    return CompiledCounts()


def _why_no_groups(runs: Sequence[VariantRun]) -> str | None:
    """Return why a variant has no counts of groups although they were to be
    recorded."""
    if _compiled(runs).groups is not None:
        return None
    for run in reversed(runs):
        if run.benched is not None and run.benched.recorded:
            return why_not_known(run.benched.graphs, run.besides.failed_hooks)
    return None


def _eager_of(
    runs: Sequence[VariantRun], interpreter: Interpreter
) -> VariantRun | None:
    for run in runs:
        if run.name == EAGER and run.interpreter is interpreter:
            return run
    return None


def _reason(present: Mapping[str, VariantRun], measured: bool) -> str | None:
    """Return why a variant could not run, or stopped. The phases are not named if
    nothing was measured and all have the same reason."""
    reasons: dict[str, str] = {}
    for phase, run in present.items():
        reasons.update(_reasons_of(phase, run))
    different = set(reasons.values())
    if len(different) == 1 and len(reasons) == len(present) and not measured:
        return different.pop()
    return "; ".join(f"{about}: {why}" for about, why in reasons.items()) or None


def _reasons_of(phase: str, run: VariantRun) -> dict[str, str]:
    """Return the reasons of one phase, each with the phase or shape."""
    reasons: dict[str, str] = {}
    if run.why is not None:
        reasons[phase] = run.why
    if run.why_not_again is not None:
        reasons[f"{phase}, a further process"] = run.why_not_again
    for shape, why in run.child.unfit.items():
        inputs = run.child.inputs.get(shape)
        if inputs is not None:
            about = ", ".join(inputs.inputs)
        else:
            about = f"shape {shape + 1}"
        reasons[f"{phase}, {about}"] = why
    return reasons


def _chosen(runs: Sequence[VariantRun]) -> BuiltVariant | None:
    """The choice that the probe made for the variant, which is the same in each
    phase."""
    for run in runs:
        if run.child.chosen is not None:
            return run.child.chosen
    return None


def _why_no_difference(ready: Sequence[WarmedShape]) -> str | None:
    if not ready or any(of_shape.max_difference is not None for of_shape in ready):
        return None
    return ready[0].why_no_difference


def _measured_phase(
    phase: str, shape: int, run: VariantRun, eager: VariantRun | None
) -> BenchPhase:
    ready, times = run.child.ready[shape], run.processes(shape)
    ms = measured_in(times)
    against: Ratio | None = None
    if run is eager:
        against = Ratio(1.0, 1.0, 1.0)
    elif eager is not None and eager.ms.get(shape):
        against = of_processes(eager.processes(shape), times)
    profiled, inspected = run.profiled.get(shape), run.inspected.get(shape)
    known = run.parts.get(shape)
    device_ms = profiled.device_ms if profiled is not None else None
    busy = None
    if device_ms is not None and ms.median > 0:
        busy = min(1.0, device_ms / ms.median)
    return BenchPhase(
        phase=phase,
        ms=ms,
        steps_per_s=1e3 / ms.median,
        ratio=against,
        device_ms=device_ms,
        busy=busy,
        rounds=sum(len(durations) for durations in times),
        steps=ready.steps,
        shape=shape,
        first_ms=ready.first_ms,
        recompiles=ready.recompiles,
        guard_failures=inspected.guard_failures if inspected is not None else None,
        peak_bytes=inspected.peak_bytes if inspected is not None else None,
        parts=known.parts if known is not None else None,
        hint=known.hint if known is not None else None,
        processes=sum(bool(durations) for durations in times),
    )


def _sum(values: Iterable[float]) -> float | None:
    """Sum of the values; None if there is none."""
    several = list(values)
    if several:
        return sum(several)
    return None


def _whole_sum(values: Iterable[int | None]) -> int | None:
    """Sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    if known:
        return sum(known)
    return None


def _max(values: Iterable[Any]) -> Any:
    """Maximum of the known values; None if none is known."""
    return max((value for value in values if value is not None), default=None)


def _groups(benched: Sequence[Benched]) -> ByPhase | None:
    """Number of forward groups in the last phase: with gradients the forward plan
    differs."""
    for run in reversed(benched):
        if run.groups_forward is not None or run.groups_backward is not None:
            return ByPhase(run.groups_forward, run.groups_backward)
    return None
