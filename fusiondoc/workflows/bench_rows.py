"""The rows of a bench: what the runs of a variant measured and reported, phase by phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fusiondoc.model.bench import EAGER, BenchPhase, BenchVariant, Groups, Ratio, measured_in, of_processes
from fusiondoc.runner.bench_child import Benched, Chosen, Ready
from fusiondoc.runner.interpreter import Interpreter
from fusiondoc.workflows.bench_turns import VariantRun


def label_among(interpreter: Interpreter, interpreters: Sequence[Interpreter]) -> str:
    """``Python 3.10, torch 2.1.2``; with the path where two have the same versions."""
    text = _versions(interpreter)
    same = [other for other in interpreters if _versions(other) == text]
    return text if len(same) == 1 else f"{text} ({interpreter.path})"


def _versions(interpreter: Interpreter) -> str:
    return f"Python {interpreter.python}, torch {interpreter.torch}"


def variant_row(
    name: str, label: str, present: Mapping[str, VariantRun], done: Mapping[str, Sequence[VariantRun]]
) -> BenchVariant:
    """One row of the table.

    Args:
        label: of the interpreter.
        present: the runs of the variant, by phase.
        done: all runs, by phase.
    """
    phases: list[BenchPhase] = []
    for phase, run in present.items():
        eager = _eager_of(done[phase], run.interpreter)
        phases += [_measured_phase(phase, shape, run, eager) for shape in run.measured_shapes()]
    runs = list(present.values())
    ready = [of_shape for run in runs for of_shape in run.child.ready.values()]
    inspected = [of_shape for run in runs for of_shape in run.inspected.values()]
    benched = [run.benched for run in runs if run.benched is not None]
    recompiles = [of_shape.recompiles for of_shape in ready]
    recompiles += [at_the_end.recompiles for at_the_end in benched]
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
        groups=_groups(benched),
        fallbacks=_whole_sum(run.fallbacks for run in runs),
        max_difference=_max(of_shape.max_difference for of_shape in ready),
        note=_note(_chosen(runs), ready),
    )


def _eager_of(runs: Sequence[VariantRun], interpreter: Interpreter) -> VariantRun | None:
    for run in runs:
        if run.name == EAGER and run.interpreter is interpreter:
            return run
    return None


def _reason(present: Mapping[str, VariantRun], measured: bool) -> str | None:
    """Why it could not run, or stopped; without the phases where nothing was measured in any of them, for
    the same reason."""
    reasons: dict[str, str] = {}
    for phase, run in present.items():
        reasons.update(_reasons_of(phase, run))
    different = set(reasons.values())
    if len(different) == 1 and len(reasons) == len(present) and not measured:
        return different.pop()
    return "; ".join(f"{about}: {why}" for about, why in reasons.items()) or None


def _reasons_of(phase: str, run: VariantRun) -> dict[str, str]:
    """Of one phase: what it is about, and why."""
    reasons: dict[str, str] = {}
    if run.why is not None:
        reasons[phase] = run.why
    if run.why_not_again is not None:
        reasons[f"{phase}, a further process"] = run.why_not_again
    for shape, why in run.child.unfit.items():
        inputs = run.child.inputs.get(shape)
        about = ", ".join(inputs.inputs) if inputs is not None else f"shape {shape + 1}"
        reasons[f"{phase}, {about}"] = why
    return reasons


def _chosen(runs: Sequence[VariantRun]) -> Chosen | None:
    """What the probe chose for the variant, which is the same in each phase."""
    for run in runs:
        if run.child.chosen is not None:
            return run.child.chosen
    return None


def _note(chosen: Chosen | None, ready: Sequence[Ready]) -> str | None:
    notes = []
    if chosen is not None and chosen.note:
        notes.append(chosen.note)
    unknown = all(of_shape.max_difference is None for of_shape in ready)
    if ready and unknown and ready[0].why_no_difference is not None:
        notes.append(f"no difference from eager is known: {ready[0].why_no_difference}")
    return "; ".join(notes) or None


def _measured_phase(phase: str, shape: int, run: VariantRun, eager: VariantRun | None) -> BenchPhase:
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
    return BenchPhase(
        phase=phase,
        ms=ms,
        steps_per_s=1e3 / ms.median,
        ratio=against,
        device_ms=device_ms,
        busy=min(1.0, device_ms / ms.median) if device_ms is not None and ms.median > 0 else None,
        rounds=sum(len(one) for one in times),
        steps=ready.steps,
        shape=shape,
        first_ms=ready.first_ms,
        recompiles=ready.recompiles,
        guard_failures=inspected.guard_failures if inspected is not None else None,
        peak_bytes=inspected.peak_bytes if inspected is not None else None,
        parts=known.parts if known is not None else None,
        hint=known.hint if known is not None else None,
        processes=sum(bool(one) for one in times),
    )


def _sum(values: Iterable[float]) -> float | None:
    """None of no value."""
    several = list(values)
    return sum(several) if several else None


def _whole_sum(values: Iterable[int | None]) -> int | None:
    """Of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _max(values: Iterable[Any]) -> Any:
    """Of those that are known; None if none is."""
    return max((value for value in values if value is not None), default=None)


def _groups(benched: Sequence[Benched]) -> Groups | None:
    """The forward groups of the last phase: with gradients the forward plan is another one."""
    for one in reversed(benched):
        if one.groups_forward is not None or one.groups_backward is not None:
            return Groups(one.groups_forward, one.groups_backward)
    return None
