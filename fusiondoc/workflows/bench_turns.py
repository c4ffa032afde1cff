"""The children of a bench: each runs one variant, and all take a round in turns."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from fusiondoc.captures.request import TargetSpec, check_inputs
from fusiondoc.diagnosis.step_time import parts_of
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.bench import EACH_CALL, FORWARD, TRAINING, VARIANTS, Part
from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.parsers.profiler_trace import read_trace
from fusiondoc.parsers.trace_units import NoTrace, read_events
from fusiondoc.runner.bench_child import BenchChild, Benched, Died, Inspected, Profiled
from fusiondoc.runner.interpreter import Interpreter
from fusiondoc.runner.variables import quiet_environment
from fusiondoc.workflows.bench_statistics import LEAST_ROUNDS, measured

ROUNDS = 15
ROUND_SECONDS = 0.2
PROCESSES = 2
"""Of each variant in each phase, where nothing else is asked for."""
LEAST_ROUNDS_OF_PROCESS = 3
"""Fewer tell no median of a process."""
TRACE = "trace-%d.json.gz"
"""What probe/benchmark.py calls the trace of a shape."""


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
        rounds: of each variant in each phase and shape, in all its processes together.
        processes: of each variant in each phase; None: ``PROCESSES``, but one where the first ones take
            longer than a quarter of ``timeout`` to warm up.
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
    freeze: bool = False
    in_place_off: bool = False
    device: str | None = None
    seed: int = 0
    knobs: Mapping[str, str] = field(default_factory=dict)
    rounds: int = ROUNDS
    processes: int | None = None
    round_seconds: float = ROUND_SECONDS
    timeout: float = 600
    cwd: Path = field(default_factory=Path.cwd)
    overlay: Mapping[str, str] = field(default_factory=dict)
    """Source files of the program -> files whose text runs in their place."""

    def phases(self) -> dict[str, bool]:
        """Which phases are timed."""
        return {FORWARD: self.forward, TRAINING: self.backward}

    def rounds_of(self, number: int, processes: int) -> int:
        """Rounds that the process of this number runs, from 0, of so many."""
        return self.rounds // processes + (number < self.rounds % processes)

    def check(self) -> None:
        """Refuse what can be seen to be wrong (UsageError)."""
        for name in self.variants:
            if name not in (*VARIANTS, EACH_CALL):
                raise UsageError(f"unknown variant '{name}'", did_you_mean(name, (*VARIANTS, EACH_CALL)))
        if not any(self.phases().values()):
            raise UsageError("--no-forward leaves nothing to time", "Add --backward.")
        check_inputs(self.inputs)
        if self.inputs and self.shapes:
            raise UsageError("--input and --shapes are two ways to say what the inputs are", "Leave one out.")
        if self.rounds < LEAST_ROUNDS:
            raise UsageError(
                f"--rounds {self.rounds}: at least {LEAST_ROUNDS} are needed for a 95 % interval",
                f"Such as --rounds {ROUNDS}",
            )
        most = self.rounds // LEAST_ROUNDS_OF_PROCESS
        if self.processes is not None and not 1 <= self.processes <= most:
            raise UsageError(
                f"--processes {self.processes}: {self.rounds} rounds are enough for 1 to {most} processes",
                f"Such as --processes {PROCESSES}; or more --rounds.",
            )


class VariantRun:
    """One variant in one phase."""

    def __init__(self, name: str, interpreter: Interpreter, child: BenchChild) -> None:
        self.name = name
        self.interpreter = interpreter
        self.child = child
        self.ms: dict[int, list[float]] = {}
        """Of a step of each shape, in each round."""
        self.further: list[dict[int, list[float]]] = []
        """The same of each further process; nothing of one that was not started or died before a round."""
        self.why_not_again: str | None = None
        """Why a further process could not run, or stopped."""
        self.profiled: dict[int, Profiled] = {}
        self.inspected: dict[int, Inspected] = {}
        self.parts: dict[int, tuple[Part, ...] | None] = {}
        """Where the time of a step of each shape goes."""
        self.benched: Benched | None = None
        self.fallbacks: int | None = None
        self.why: str | None = None
        """Why it could not run, or stopped."""

    def processes(self, shape: int) -> list[list[float]]:
        """The rounds of each process; none where it has none of this shape."""
        return [one.get(shape, []) for one in (self.ms, *self.further)]


def take_turns(runs: Sequence[VariantRun], number: int, shape: int) -> None:
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


def look_at(run: VariantRun, shape: int) -> None:
    """What is known of a shape beside its times; after all rounds, because it disturbs."""
    inspected = run.child.inspect(shape)
    if inspected is not None:
        run.inspected[shape] = inspected
    profiled = run.child.profile(shape)
    if profiled is not None:
        run.profiled[shape] = profiled
        file = run.child.log.parent / (TRACE % shape)
        run.parts[shape] = parts_of_trace(file, profiled, measured(run.ms[shape]).median)
        file.unlink(missing_ok=True)  # Of long steps it is large.


def parts_of_trace(file: Path, told: Profiled, ms: float) -> tuple[Part, ...] | None:
    """Where the time of a step goes, by the trace that the child wrote; None where it is not known.

    Args:
        ms: of a step without the profiler. On a GPU that is the step of which the parts are: a profiler makes
            a host slower, and kernels not. On a CPU it is the profiled one.
    """
    if not told.traced or told.traced < 0:
        return None
    try:
        trace = read_trace(read_events(file))
    except NoTrace:
        return None
    whole = trace.ms if trace.busy_ms is None else max(trace.busy_ms, ms * told.traced)
    # To the profiler the loop was one step.
    return parts_of(replace(trace, steps=told.traced, ms=whole), told.device)


def start_variant(
    request: BenchRequest, name: str, interpreter: Interpreter, phase: str, folder: Path
) -> VariantRun:
    """Start its process, which loads the model and waits to be warmed up.

    Args:
        folder: is made for its files.
    """
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
        "freeze": request.freeze,
        "in_place_off": request.in_place_off,
        "device": request.device,
        "seed": request.seed,
        "knobs": dict(request.knobs),
        "overlay": dict(request.overlay),
    }
    environment = quiet_environment(os.environ).child(os.environ)
    child = BenchChild(interpreter.path, spec, environment, request.cwd, folder, request.timeout)
    child.start()
    return VariantRun(name, interpreter, child)
