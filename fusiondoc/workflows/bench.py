"""``fusiondoc bench``: a model in every variant on the same inputs, in one or several interpreters; or with
``--suite`` each case of a suite so.

Each variant is a process of its own in each phase, and none logs anything. All of a phase live at the same
time and run a round each in turns, in an order that changes from turn to turn, so that what slows the
machine slows all of them. Then each variant gets a second process, and all of these take turns: where the
host is the limit, processes of one program differ by more than rounds of one process. (All at once would
need the memory of the GPU twice.)
"""

from __future__ import annotations

import contextlib
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.request import parse_target
from fusiondoc.errors import CannotRun, FusiondocError, ModelFailed, UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.bench import (
    EAGER,
    Bench,
    BenchPhase,
    BenchShape,
    BenchVariant,
    Groups,
    Ratio,
    Suite,
    SuiteCase,
    measured_in,
    of_processes,
)
from fusiondoc.probe.pass_inputs import InputTextError, parse_input
from fusiondoc.runner.bench_child import BenchChild, Benched
from fusiondoc.runner.interpreter import Interpreter, find_python, inspect
from fusiondoc.suites import Case, SuitePlan
from fusiondoc.workflows.bench_turns import (
    BenchProgress,
    BenchRequest,
    Start,
    VariantRun,
    run_in_turns,
    start_variant,
)


class _Silent:
    """Shows nothing."""

    def say(self, doing: str, done: int, total: int) -> None: ...


@contextlib.contextmanager
def silent() -> Iterator[BenchProgress]:
    """No progress is shown."""
    yield _Silent()


class _Whole:
    """One of ``phases`` phases tells how far it is, so that the time left is that of all."""

    def __init__(self, bar: BenchProgress, before: int, phases: int) -> None:
        self._bar, self._before, self._phases = bar, before, phases

    def say(self, doing: str, done: int, total: int) -> None:
        self._bar.say(doing, self._before * total + done, self._phases * total)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fusiondoc-bench-") as name:
        yield Path(name)


def run_bench(request: BenchRequest, progress: Callable[[], AbstractContextManager[BenchProgress]]) -> Bench:
    """Run all variants in all interpreters.

    An interruption (Ctrl-C) ends the rounds; what they measured until then is in the result.

    Raises:
        UsageError: wrong usage.
        KeyboardInterrupt: the user stopped it before the first turn was done.
        CannotRun: no interpreter has torch, or this system cannot run models.
        ModelFailed: the model fails in every variant, eager too.
    """
    request.check()
    interpreters = [inspect(find_python(path)) for path in request.pythons]
    for one in interpreters:
        one.require_torch()
    phases = [phase for phase, wanted in request.phases().items() if wanted]
    done: dict[str, list[VariantRun]] = {}
    interrupted = False
    with _folder() as folder, progress() as bar:
        for phase in phases:
            if interrupted:
                break
            whole = _Whole(bar, len(done), len(phases))
            done[phase], interrupted = _phase(request, interpreters, phase, folder / phase, whole)
    if interrupted and not any(run.measured_shapes() for runs in done.values() for run in runs):
        raise KeyboardInterrupt
    _refuse_if_nothing_ran(request, done)
    labels = _labels(interpreters)
    rows = [(name, label) for label in labels for name in request.variants]
    variants = [
        _variant(*row, {phase: runs[number] for phase, runs in done.items() if number < len(runs)}, done)
        for number, row in enumerate(rows)
    ]
    children = [run.child for runs in done.values() for run in runs]
    facts = next((child.facts for child in children if child.facts is not None), None)
    environment = {
        name: value
        for name, value in (vars(facts).items() if facts is not None else ())
        if isinstance(value, str)
    }
    shapes = _shapes(children)
    inputs = shapes[0].inputs if shapes else request.inputs
    return Bench(environment, request.target.label, inputs, tuple(variants), interrupted, shapes)


def _shapes(children: Sequence[BenchChild]) -> tuple[BenchShape, ...]:
    """What the children that got furthest were given."""
    most = max((child.inputs for child in children), key=len, default={})
    return tuple(BenchShape(most[number].inputs, most[number].sizes) for number in sorted(most))


def _phase(
    request: BenchRequest, interpreters: Sequence[Interpreter], phase: str, folder: Path, bar: BenchProgress
) -> tuple[list[VariantRun], bool]:
    """All variants of one phase, and whether the user interrupted."""

    def starting(name: str, one: Interpreter) -> Start:
        return lambda inside: start_variant(request, name, one, phase, inside)

    starts = [starting(name, one) for one in interpreters for name in request.variants]
    return run_in_turns(starts, request, folder, bar, phase)


def _eager_of(runs: Sequence[VariantRun], interpreter: Interpreter) -> VariantRun | None:
    for run in runs:
        if run.name == EAGER and run.interpreter is interpreter:
            return run
    return None


def _refuse_if_nothing_ran(request: BenchRequest, done: Mapping[str, Sequence[VariantRun]]) -> None:
    """Where no variant has a round for the same reason, that is the error of the command."""
    runs = [run for one in done.values() for run in one]
    if any(run.measured_shapes() for run in runs):
        return
    for run in sorted(runs, key=lambda run: run.name != EAGER):
        problem = run.child.problem
        if problem is None:
            continue
        if problem.type != "Refused":
            where = f"{request.target.label} failed in every variant; {run.name}: "
            raise ModelFailed(where + run.child.why(), problem.hint or "Run it by hand to see more.")
        if run.name == EAGER or len({one.why for one in runs}) == 1:
            raise CannotRun(run.child.why(), problem.hint)
    reasons = "; ".join(f"{run.name}: {run.why}" for run in runs if run.why)
    raise CannotRun(f"no variant could run: {reasons}" if reasons else "no round was run", None)


def _labels(interpreters: Sequence[Interpreter]) -> list[str]:
    """``Python 3.10, torch 2.1.2``; with the path where two are the same."""
    texts = [f"Python {one.python}, torch {one.torch}" for one in interpreters]
    return [
        text if texts.count(text) == 1 else f"{text} ({one.path})" for text, one in zip(texts, interpreters)
    ]


def _variant(
    name: str, label: str, present: Mapping[str, VariantRun], done: Mapping[str, Sequence[VariantRun]]
) -> BenchVariant:
    """One row of the table.

    Args:
        present: its runs, by phase.
        done: all runs, by phase.
    """
    phases = []
    reasons: dict[str, str] = {}
    for phase, run in present.items():
        eager = _eager_of(done[phase], run.interpreter)
        phases += [_measured_phase(phase, shape, run, eager) for shape in run.measured_shapes()]
        if run.why is not None:
            reasons[phase] = run.why
        if run.why_not_again is not None:
            reasons[f"{phase}, a further process"] = run.why_not_again
        for shape, why in run.child.unfit.items():
            of_shape = run.child.inputs.get(shape)
            about = ", ".join(of_shape.inputs) if of_shape is not None else f"shape {shape + 1}"
            reasons[f"{phase}, {about}"] = why
    said = list(dict.fromkeys(reasons.values()))
    if len(said) == 1 and len(reasons) == len(present) and not phases:
        reason: str | None = said[0]
    else:
        reason = "; ".join(f"{phase}: {why}" for phase, why in reasons.items()) or None
    ready = [one for run in present.values() for one in run.child.ready.values()]
    inspected = [one for run in present.values() for one in run.inspected.values()]
    benched = [run.benched for run in present.values() if run.benched is not None]
    chosen = next((run.child.chosen for run in present.values() if run.child.chosen is not None), None)
    differences = [one.max_difference for one in ready if one.max_difference is not None]
    notes = [chosen.note if chosen is not None else None]
    if not differences:
        reasons_why = [one.why_no_difference for one in ready[:1] if one.why_no_difference is not None]
        notes += [f"no difference from eager is known: {why}" for why in reasons_why]
    return BenchVariant(
        name=name,
        interpreter=label,
        available=bool(phases),
        reason=reason,
        phases=tuple(phases),
        warmup_s=sum(one.warmup_s for one in ready) if ready else None,
        compile_s=sum(one.compile_s for one in ready) if ready else None,
        recompiles=_sum([*(one.recompiles for one in ready), *(one.recompiles for one in benched)]),
        peak_bytes=max((one.peak_bytes for one in inspected if one.peak_bytes is not None), default=None),
        groups=_groups(benched),
        fallbacks=_sum([run.fallbacks for run in present.values()]),
        max_difference=max(differences, default=None),
        note="; ".join(note for note in notes if note) or None,
    )


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


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _groups(benched: Sequence[Benched]) -> Groups | None:
    """The forward groups of the last phase: with gradients the forward plan is another one."""
    for one in reversed(benched):
        if one.groups_forward is not None or one.groups_backward is not None:
            return Groups(one.groups_forward, one.groups_backward)
    return None


MOST_SHAPES = 64

_SET = re.compile(r"\{([^{}]*)\}")

_EXAMPLE = "Such as --shapes 'float32[8,{64,128,256},1024]'"


def expanded(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The ``--input`` texts of each shape.

    Sets that are written alike vary together; different ones are combined each with each, the first slowest.

    Args:
        texts: one an argument of the model; none is no shape.

    Raises:
        UsageError: a text cannot be read, or there are more than ``MOST_SHAPES``.
    """
    if not texts:
        return ()
    sets = list(dict.fromkeys(_key(text, one) for text in texts for one in _SET.findall(text)))
    number = 1
    for one in sets:
        number *= len(one)
    if number > MOST_SHAPES:
        raise UsageError(
            f"--shapes: these are {number} shapes, and at most {MOST_SHAPES} are timed", "Take fewer sizes."
        )
    shapes = []
    for chosen in itertools.product(*sets):
        values = dict(zip(sets, chosen))
        shapes.append(tuple(_filled(text, values) for text in texts))
    for text in itertools.chain.from_iterable(shapes):
        try:
            parse_input(text)
        except InputTextError as error:
            raise UsageError(f"--shapes: {error}", _EXAMPLE) from None
    return tuple(dict.fromkeys(shapes))


def _filled(text: str, values: Mapping[tuple[str, ...], str]) -> str:
    return _SET.sub(lambda found: values[_words(found[1])], text)


def _key(text: str, inside: str) -> tuple[str, ...]:
    words = _words(inside)
    for word in words:
        if not re.fullmatch(r"[0-9]+", word):
            found = f"found '{word}'" if word else "found nothing"
            raise UsageError(f"--shapes: '{text}': expected sizes in {{...}}, {found}", _EXAMPLE)
    return words


def _words(inside: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in inside.split(","))


ROUND_SECONDS = 0.05
"""Shorter than of a bench of its own: there are many cases."""


@dataclass(frozen=True)
class SuiteRequest:
    """What to run.

    Attributes:
        patterns: which cases, all if empty (``SuitePlan.chosen``).
        small: the small sizes; None: where no GPU is seen.
        bench: interpreters, variants, rounds and so on; target and inputs are those of each case.
    """

    plan: SuitePlan
    bench: BenchRequest
    patterns: tuple[str, ...] = ()
    small: bool | None = None


def run_suite(request: SuiteRequest, progress: Callable[[], AbstractContextManager[BenchProgress]]) -> Suite:
    """Run the cases one after the other.

    A case that cannot run, or fails in every variant, is in the result with its reason. An interruption ends
    the suite; cases and rounds that were done until then are in the result.

    Raises:
        UsageError: wrong usage.
        KeyboardInterrupt: the user stopped it before anything was measured.
        CannotRun: no case can run, for the reason of the first.
    """
    small = request.small if request.small is not None else not _sees_gpu(request.bench)
    cases = request.plan.chosen(request.patterns, small)
    request.bench.check()
    done: list[SuiteCase] = []
    failures: list[FusiondocError] = []
    interrupted = False
    with progress() as bar:
        for number, case in enumerate(cases):
            told = _Told(bar, f"{case.name} ({number + 1} of {len(cases)})", number, len(cases))
            try:
                bench = run_bench(_bench_of(case, request.bench), told.itself)
            except KeyboardInterrupt:
                if not done:
                    raise
                interrupted = True
                break
            except (CannotRun, ModelFailed) as error:
                failures.append(error)
                done.append(SuiteCase(case.block, case.sizes, None, str(error)))
                continue
            done.append(SuiteCase(case.block, case.sizes, bench))
            interrupted = bench.interrupted
            if interrupted:
                break
    if failures and all(one.bench is None for one in done):
        raise failures[0]
    return Suite(
        request.plan.name,
        small,
        tuple(done),
        request.plan.published,
        request.plan.why_different,
        interrupted,
    )


def _sees_gpu(request: BenchRequest) -> bool:
    """Whether the inputs will be on a GPU: asked without importing torch anywhere."""
    if request.device is not None:
        return not request.device.startswith("cpu")
    builds = [inspect(find_python(path)).torch_cuda for path in request.pythons]
    return any(builds) and Path("/dev/nvidiactl").exists()


def _bench_of(case: Case, request: BenchRequest) -> BenchRequest:
    return replace(
        request,
        target=parse_target(case.target),
        inputs=case.inputs,
        random_sizes=case.random,
        round_seconds=ROUND_SECONDS,
        # There are many cases: twice the warm-ups of all of them are for who asks.
        processes=1 if request.processes is None else request.processes,
    )


class _Told:
    """What a bench says of itself, as a part of the suite."""

    def __init__(self, bar: BenchProgress, name: str, before: int, cases: int) -> None:
        self._bar = bar
        self._name = name
        self._before = before
        self._cases = cases

    @contextlib.contextmanager
    def itself(self) -> Iterator[BenchProgress]:
        yield self

    def say(self, doing: str, done: int, total: int) -> None:
        share = 100_000 // self._cases
        part = share * done // total if total else 0
        self._bar.say(f"{self._name}, {doing}", share * self._before + part, share * self._cases)
