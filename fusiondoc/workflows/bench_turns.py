"""The processes of a bench: the n-th processes of all variants live at the same
time and take a round in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from fusiondoc.captures.request import TargetSpec, check_inputs
from fusiondoc.diagnosis.step_time import StepParts, parts_of
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model import dataclass, field
from fusiondoc.model.bench import (
    EACH_CALL,
    FORWARD,
    LEAST_ROUNDS,
    ROUNDS,
    TRAINING,
    VARIANTS,
    measured,
)
from fusiondoc.model.typed_fields import as_json
from fusiondoc.parsers.profiler_trace import NoTrace, read_events, read_trace
from fusiondoc.runner.bench_child import (
    BenchChild,
    Benched,
    Died,
    Inspected,
    ProfiledStep,
)
from fusiondoc.runner.interpreter import Interpreter
from fusiondoc.runner.run_variables import quiet_environment
from fusiondoc.workflows.bench_compiled import SeenBesides, seen_besides

ROUND_SECONDS = 0.2
PROCESSES = 2
"""Rounds of each variant in each phase, by default."""
LEAST_ROUNDS_OF_PROCESS = 3
"""Rounds that a process needs at least to have a median."""
TRACE = "trace-%d.json.gz"
"""The name that probe/benchmark.py gives the trace of a shape."""


_WARM_UP_SHARE = 0.25
"""Share of the time limit. If the warm-up of the first processes takes longer, no
variant gets a second process, unless the user set the number of processes."""


class BenchProgress(Protocol):
    """Shows the progress."""

    def say(self, doing: str, done: int, total: int) -> None: ...


AS_OF_A_RUN = (
    *(
        "inputs",
        "backward",
        "trace",
        "eval",
        "freeze",
        "in_place_off",
        "device",
        "knobs",
        "timeout",
    ),
    *("cwd", "overlay"),
)
"""Fields of ``BenchRequest`` with the same meaning as in ``RunRequest``."""


@dataclass(frozen=True)
class BenchRequest:
    """The variants and inputs to compare.

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
        twice_within: seconds; where the first processes need longer to warm up, there is one of each. None
            for a quarter of ``timeout``.
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
    twice_within: float | None = None
    cwd: Path = field(default_factory=Path.cwd)
    overlay: Mapping[str, str] = field(default_factory=dict)
    """Source files of the program -> files whose text runs instead of theirs."""

    def phases(self) -> dict[str, bool]:
        """The phases to time."""
        return {FORWARD: self.forward, TRAINING: self.backward}

    def rounds_of(self, number: int, processes: int) -> int:
        """Number of rounds for the process with this index (from 0), of
        ``processes``."""
        return self.rounds // processes + (number < self.rounds % processes)

    def check(self) -> None:
        """Raise UsageError for a request that is recognisably wrong."""
        for name in self.variants:
            if name not in (*VARIANTS, EACH_CALL):
                raise UsageError(
                    f"unknown variant '{name}'",
                    did_you_mean(name, (*VARIANTS, EACH_CALL)),
                )
        if not any(self.phases().values()):
            raise UsageError(
                "--no-forward leaves nothing to time", "Add --backward."
            )
        check_inputs(self.inputs)
        if self.inputs and self.shapes:
            raise UsageError(
                "--input and --shapes both define the inputs", "Leave one out."
            )
        if self.rounds < LEAST_ROUNDS:
            raise UsageError(
                f"--rounds {self.rounds}: at least {LEAST_ROUNDS} are needed for a 95 % interval",
                f"For example: --rounds {ROUNDS}",
            )
        most = self.rounds // LEAST_ROUNDS_OF_PROCESS
        if self.processes is not None and not 1 <= self.processes <= most:
            raise UsageError(
                f"--processes {self.processes}: {self.rounds} rounds are enough for 1 to {most} processes",
                f"For example: --processes {PROCESSES}; or more --rounds.",
            )


class VariantRun:
    """One variant in one phase."""

    def __init__(
        self, name: str, interpreter: Interpreter, child: BenchChild
    ) -> None:
        self.name = name
        self.interpreter = interpreter
        self.child = child
        self.ms: dict[int, list[float]] = {}
        """Milliseconds of a step of each shape, in each round."""
        self.further: list[dict[int, list[float]]] = []
        """The same for each further process; empty for one that was not started, or
        that died before a round."""
        self.why_not_again: str | None = None
        """Why a further process could not run, or stopped."""
        self.profiled: dict[int, ProfiledStep] = {}
        self.inspected: dict[int, Inspected] = {}
        self.parts: dict[int, StepParts | None] = {}
        """The parts of the time of a step, by shape."""
        self.benched: Benched | None = None
        self.besides = SeenBesides()
        self.why: str | None = None
        """Why it could not run, or stopped."""

    def processes(self, shape: int) -> list[list[float]]:
        """The rounds of each process; none where it has none of this shape."""
        return [medians.get(shape, []) for medians in (self.ms, *self.further)]

    def measured_shapes(self) -> list[int]:
        """The shapes for which the first process has rounds."""
        return [shape for shape, times in self.ms.items() if times]


def take_turns(runs: Sequence[VariantRun], number: int, shape: int) -> None:
    """Run a round of each variant. Each turn begins with another variant, and every
    other turn goes backwards."""
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
    """Collect the facts of a shape beside its times; after all rounds, because this
    disturbs the timing."""
    inspected = run.child.inspect(shape)
    if inspected is not None:
        run.inspected[shape] = inspected
    profiled = run.child.profile(shape)
    if profiled is not None:
        run.profiled[shape] = profiled
        file = run.child.log.parent / (TRACE % shape)
        run.parts[shape] = parts_of_trace(
            file, profiled, measured(run.ms[shape]).median
        )
        file.unlink(missing_ok=True)  # Of long steps it is large.


def parts_of_trace(
    file: Path, profiled_steps: ProfiledStep, ms: float
) -> StepParts | None:
    """Split the time of a step into parts, by the trace that the child wrote; None
    if this is not possible.

    Args:
        ms: time of a step without the profiler. On a GPU the parts are those of
            this step: a profiler slows down the host, but not kernels. On a CPU
            they are those of the profiled step.
    """
    if not profiled_steps.traced or profiled_steps.traced < 0:
        return None
    try:
        trace = read_trace(read_events(file))
    except NoTrace:
        return None
    if trace.busy_ms is None:
        whole = trace.ms
    else:
        whole = max(trace.busy_ms, ms * profiled_steps.traced)
    # To the profiler the loop was one step.
    one_step = replace(trace, steps=profiled_steps.traced, ms=whole)
    return parts_of(
        one_step,
        profiled_steps.device,
        profiled_steps.allow_tf32,
        profiled_steps.capability,
    )


_IN_SPEC = (
    *(
        "cwd",
        "inputs",
        "shapes",
        "random_sizes",
        "round_seconds",
        "trace",
        "eval",
        "freeze",
        "in_place_off",
    ),
    *("device", "seed", "knobs", "overlay"),
)
"""Fields of ``BenchRequest`` that are passed to the probe (probe/benchmark.py)."""


def start_variant(
    request: BenchRequest,
    name: str,
    interpreter: Interpreter,
    phase: str,
    folder: Path,
) -> VariantRun:
    """Start the process of a variant, which loads the model and waits for the
    command to warm up.

    Args:
        folder: created for its files.
    """
    folder.mkdir()
    spec: dict[str, Any] = {
        "target": request.target.as_json(),
        "variant": name,
        "phase": phase,
        **{name: as_json(getattr(request, name)) for name in _IN_SPEC},
    }
    environment = quiet_environment(os.environ).child(os.environ)
    child = BenchChild(
        interpreter.path, spec, environment, request.cwd, folder, request.timeout
    )
    child.start()
    return VariantRun(name, interpreter, child)


Start = Callable[[Path], VariantRun]
"""Starts a process of a variant, with that folder for its files."""


def run_in_turns(
    starts: Sequence[Start],
    request: BenchRequest,
    folder: Path,
    bar: BenchProgress,
    about: str,
    only_times: bool = False,
    keeps: bool = False,
) -> tuple[list[VariantRun], bool]:
    """Run every variant in the requested number of processes, the n-th processes of
    all variants in turns; also return whether the user interrupted.

    Args: starts: a variant each. request: gives rounds, processes and the time
        limit. about: the phase, for the progress. only_times: measure the times of
        the first shape alone, and nothing else. keeps: if each variant has one
        process, leave these running for more rounds; the caller ends them.
    """
    first = _Turns(starts, request, folder, bar, about, only_times, keeps=keeps)
    interrupted = first.run()
    for number in range(1, first.processes):
        if interrupted:
            break
        # A variant that failed once fails again.
        of = []
        for run, start in zip(first.runs, starts):
            if run.why is None:
                of.append((run, start))
        again = _Turns(
            [start for _, start in of],
            request,
            folder,
            bar,
            about,
            only_times,
            number,
        )
        again.processes = first.processes
        interrupted = again.run()
        further = {id(run): later for (run, _), later in zip(of, again.runs)}
        for run in first.runs:
            later = further.get(id(run))
            run.further.append(later.ms if later is not None else {})
            if later is not None and later.why is not None:
                run.why_not_again = later.why
    return first.runs, interrupted


class _Turns:
    """One process of each variant: all live at the same time and take turns.

    Args: number: index of the processes, from 0; those with index 0 also collect
        facts. keeps: as in ``run_in_turns``.
    """

    def __init__(
        self,
        starts: Sequence[Start],
        request: BenchRequest,
        folder: Path,
        bar: BenchProgress,
        about: str,
        only_times: bool,
        number: int = 0,
        keeps: bool = False,
    ) -> None:
        self._starts = starts
        self._keeps = keeps
        self._request = request
        self._folder = folder / str(number) if number else folder
        self._bar = bar
        self._about = about
        self._only_first = only_times
        self._looks = number == 0 and not only_times
        self._number = number
        if request.processes is None:
            self.processes = PROCESSES
        else:
            self.processes = request.processes
        self.runs: list[VariantRun] = []

    def run(self) -> bool:
        """Start, warm up and time the processes; return whether the user
        interrupted."""
        self._folder.mkdir()
        interrupted = False
        try:
            self._say("loading", 0)
            for number, start in enumerate(self._starts):
                self.runs.append(start(self._folder / f"variant-{number}"))
            self._warm_up()
            self._time()
            if self._looks:
                for run in self.runs:
                    for shape in run.measured_shapes() if run.why is None else []:
                        look_at(run, shape)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            for run in self.runs:
                self._end(run, interrupted)
        return interrupted

    def _end(self, run: VariantRun, interrupted: bool) -> None:
        """End the process of a run, and read its log, records and final figures."""
        going_on = run.why is None and not interrupted
        if going_on and self._looks:
            run.benched = run.child.end()
        if not (going_on and self._keeps and self.processes == 1):
            run.child.kill()
        if run.child.ready and self._looks:
            run.besides = seen_besides(run.child.log, run.child.records)

    def _warm_up(self) -> None:
        """Warm up the processes one after the other: concurrent compilations would
        take longer. Some may be warm already."""
        began = time.monotonic()
        for number, run in enumerate(self.runs):
            self._say(f"{run.name} warms up", number)
            try:
                run.child.warm_up(record=self._looks)
                run.further = []
                run.ms = {}
                for shape in run.child.ready:
                    if not (self._only_first and shape):
                        run.ms[shape] = []
            except Died as died:
                run.why = str(died)
        warming = sum(
            ready.warmup_s
            for run in self.runs
            for ready in run.child.ready.values()
        )
        took = max(time.monotonic() - began, warming)
        request = self._request
        too_long = took > (request.twice_within or _WARM_UP_SHARE * request.timeout)
        if request.processes is None and self._number == 0 and too_long:
            self.processes = 1

    def _time(self) -> None:
        shapes = sorted({shape for run in self.runs for shape in run.ms})
        rounds = self._request.rounds_of(self._number, self.processes)
        for number in range(rounds):
            done = self._rounds_before() + number
            self._say(
                f"round {done + 1} of {self._request.rounds}",
                len(self._starts) + number,
            )
            for shape in shapes:
                take_turns(
                    [
                        run
                        for run in self.runs
                        if run.why is None and shape in run.ms
                    ],
                    number,
                    shape,
                )

    def _rounds_before(self) -> int:
        total = 0
        for number in range(self._number):
            total += self._request.rounds_of(number, self.processes)
        return total

    def _say(self, doing: str, done: int) -> None:
        before = self._number * len(self._starts) + self._rounds_before()
        total = self.processes * len(self._starts) + self._request.rounds
        self._bar.say(f"{self._about}: {doing}", before + done, total)
