"""``fusiondoc bench``: a model in every variant on the same inputs, in one or several interpreters.

Each variant is a process of its own in each phase, and none logs anything. All of a phase live at the same
time and run a round each in turns, in an order that changes from turn to turn, so that what slows the machine
slows all of them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, Mapping, Protocol, Sequence

from fusiondoc.captures.request import TargetSpec
from fusiondoc.errors import CannotRun, FusiondocError, ModelFailed, UsageError, did_you_mean
from fusiondoc.model.bench import (
    EACH_CALL,
    EAGER,
    FORWARD,
    TRAINING,
    VARIANTS,
    Bench,
    BenchPhase,
    BenchShape,
    BenchVariant,
    Groups,
    Ratio,
)
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.runner.bench_child import BenchChild, Benched, Died, Inspected, Profiled
from fusiondoc.runner.interpreter import Interpreter, find_python, inspect
from fusiondoc.runner.variables import quiet_environment
from fusiondoc.workflows.bench_statistics import LEAST_ROUNDS, measured, ratio

ROUNDS = 15
ROUND_SECONDS = 0.2


@dataclass(frozen=True)
class BenchRequest:
    """What to compare.

    Attributes:
        pythons: interpreters, each with all variants.
        backward: time the phase "forward+backward".
        forward: time the phase "forward".
        inputs: one shape, as ``--input`` texts, instead of the target's own.
        shapes: several.
        random_sizes: every step gets other sizes, near those of each shape.
        rounds: of each variant in each phase and shape.
        round_seconds: about so long a round lasts.
        timeout: seconds for a warm-up, and for every round.
    """

    target: TargetSpec
    pythons: tuple[Path, ...]
    variants: tuple[str, ...] = VARIANTS
    inputs: tuple[str, ...] = ()
    shapes: tuple[tuple[str, ...], ...] = ()
    random_sizes: bool = False
    backward: bool = False
    forward: bool = True
    trace: bool = False
    eval: bool = False
    device: str | None = None
    seed: int = 0
    knobs: Mapping[str, str] = field(default_factory=dict)
    rounds: int = ROUNDS
    round_seconds: float = ROUND_SECONDS
    timeout: float = 600
    cwd: Path = field(default_factory=Path.cwd)

    def phases(self) -> dict[str, bool]:
        """Which phases are timed."""
        return {FORWARD: self.forward, TRAINING: self.backward}

    def check(self) -> None:
        """Refuse what can be seen to be wrong (UsageError)."""
        for name in self.variants:
            if name not in (*VARIANTS, EACH_CALL):
                raise UsageError(f"unknown variant '{name}'", did_you_mean(name, (*VARIANTS, EACH_CALL)))
        if not any(self.phases().values()):
            raise UsageError("--no-forward leaves nothing to time", "Add --backward.")
        if self.inputs and self.shapes:
            raise UsageError("--input and --shapes are two ways to say what the inputs are", "Leave one out.")
        if self.rounds < LEAST_ROUNDS:
            raise UsageError(
                f"--rounds {self.rounds}: at least {LEAST_ROUNDS} are needed for a 95 % interval",
                f"Such as --rounds {ROUNDS}",
            )


class BenchProgress(Protocol):
    """Is told how far it is."""

    def say(self, doing: str, done: int, total: int) -> None: ...


class _Run:
    """One variant in one phase."""

    def __init__(self, name: str, interpreter: Interpreter, child: BenchChild) -> None:
        self.name = name
        self.interpreter = interpreter
        self.child = child
        self.ms: dict[int, list[float]] = {}
        """Of a step of each shape, in each round."""
        self.profiled: dict[int, Profiled] = {}
        self.inspected: dict[int, Inspected] = {}
        self.benched: Benched | None = None
        self.fallbacks: int | None = None
        self.why: str | None = None
        """Why it could not run, or stopped."""


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fusiondoc-bench-") as name:
        yield Path(name)


def run_bench(request: BenchRequest, progress: Callable[[], ContextManager[BenchProgress]]) -> Bench:
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
    done: dict[str, list[_Run]] = {}
    interrupted = False
    with _folder() as folder, progress() as bar:
        for phase in phases:
            if interrupted:
                break
            done[phase], interrupted = _phase(request, interpreters, phase, folder / phase, bar)
    if interrupted and not any(_measured_shapes(run) for runs in done.values() for run in runs):
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


def _measured_shapes(run: _Run) -> list[int]:
    return [shape for shape, times in run.ms.items() if times]


def _phase(
    request: BenchRequest, interpreters: Sequence[Interpreter], phase: str, folder: Path, bar: BenchProgress
) -> tuple[list[_Run], bool]:
    """All variants of one phase, and whether the user interrupted."""
    folder.mkdir()
    runs: list[_Run] = []
    interrupted = False
    names = [(name, one) for one in interpreters for name in request.variants]
    total = len(names) + request.rounds
    try:
        bar.say(f"{phase}: loading", 0, total)
        for number, (name, interpreter) in enumerate(names):
            runs.append(_started(request, name, interpreter, phase, folder / f"{number}-{name}"))
        # One after the other: a compilation beside another one would take longer.
        for number, run in enumerate(runs):
            bar.say(f"{phase}: {run.name} warms up", number, total)
            try:
                run.child.warm_up()
                run.ms = {shape: [] for shape in run.child.ready}
            except Died as died:
                run.why = str(died)
        shapes = sorted({shape for run in runs for shape in run.ms})
        for number in range(request.rounds):
            bar.say(f"{phase}: round {number + 1} of {request.rounds}", len(names) + number, total)
            for shape in shapes:
                _turn([run for run in runs if run.why is None and shape in run.ms], number, shape)
        for run in runs:
            for shape in _measured_shapes(run) if run.why is None else []:
                _look(run, shape)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for run in runs:
            if run.why is None and not interrupted:
                run.benched = run.child.end()
            run.child.kill()
            if run.child.ready:
                run.fallbacks = _fallbacks(run.child.log)
    return runs, interrupted


def _turn(runs: Sequence[_Run], number: int, shape: int) -> None:
    """A round of each; another begins each turn, and every other turn goes backwards."""
    start = number % len(runs) if runs else 0
    order = [*runs[start:], *runs[:start]]
    measured_now: dict[int, float] = {}
    for run in order if number % 2 == 0 else reversed(order):
        try:
            done = run.child.round(number, shape)
            measured_now[id(run)] = done.seconds / done.steps * 1e3
        except Died as died:
            run.why = str(died)
    # Only whole turns count: the n-th round of every variant is of the same turn.
    for run in runs:
        if id(run) in measured_now:
            run.ms[shape].append(measured_now[id(run)])


def _look(run: _Run, shape: int) -> None:
    """What is known of a shape beside its times; after all rounds, because it disturbs."""
    inspected = run.child.inspect(shape)
    if inspected is not None:
        run.inspected[shape] = inspected
    profiled = run.child.profile(shape)
    if profiled is not None:
        run.profiled[shape] = profiled


def _started(request: BenchRequest, name: str, interpreter: Interpreter, phase: str, folder: Path) -> _Run:
    folder.mkdir()
    spec: dict[str, Any] = {
        "target": request.target.as_json(),
        "cwd": str(request.cwd),
        "variant": name,
        "phase": phase,
        "inputs": list(request.inputs),
        "shapes": [list(texts) for texts in request.shapes],
        "random_sizes": request.random_sizes,
        "round_seconds": request.round_seconds,
        "trace": request.trace,
        "eval": request.eval,
        "device": request.device,
        "seed": request.seed,
        "knobs": dict(request.knobs),
    }
    environment = quiet_environment(os.environ).child(os.environ)
    child = BenchChild(interpreter.path, spec, environment, request.cwd, folder, request.timeout)
    child.start()
    return _Run(name, interpreter, child)


def _eager_of(runs: Sequence[_Run], interpreter: Interpreter) -> _Run | None:
    for run in runs:
        if run.name == EAGER and run.interpreter is interpreter:
            return run
    return None


def _refuse_if_nothing_ran(request: BenchRequest, done: Mapping[str, Sequence[_Run]]) -> None:
    """Where no variant has a round for the same reason, that is the error of the command."""
    runs = [run for one in done.values() for run in one]
    if any(_measured_shapes(run) for run in runs):
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
    name: str, label: str, present: Mapping[str, _Run], done: Mapping[str, Sequence[_Run]]
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
        phases += [_measured_phase(phase, shape, run, eager) for shape in _measured_shapes(run)]
        if run.why is not None:
            reasons[phase] = run.why
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
        notes += [one.why_no_difference for one in ready[:1]]
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


def _measured_phase(phase: str, shape: int, run: _Run, eager: _Run | None) -> BenchPhase:
    ready, times = run.child.ready[shape], run.ms[shape]
    ms = measured(times)
    against: Ratio | None = None
    if run is eager:
        against = Ratio(1.0, 1.0, 1.0)
    elif eager is not None and eager.ms.get(shape):
        against = ratio(eager.ms[shape], times)
    profiled, inspected = run.profiled.get(shape), run.inspected.get(shape)
    device_ms = profiled.device_ms if profiled is not None else None
    return BenchPhase(
        phase=phase,
        ms=ms,
        steps_per_s=1e3 / ms.median,
        ratio=against,
        device_ms=device_ms,
        busy=min(1.0, device_ms / ms.median) if device_ms is not None and ms.median > 0 else None,
        rounds=len(times),
        steps=ready.steps,
        shape=shape,
        first_ms=ready.first_ms,
        recompiles=ready.recompiles,
        guard_failures=inspected.guard_failures if inspected is not None else None,
        peak_bytes=inspected.peak_bytes if inspected is not None else None,
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


def _fallbacks(log: Path) -> int | None:
    """What torch warned of on stderr, read as any log is."""
    with contextlib.suppress(FusiondocError, OSError):
        report, _ = read_logs([LogInput("log", log)])
        return sum(row.count for row in report.fallbacks)
    return None
