"""``--time``: once more without logs, eager against fused.

``--time`` of a program that runs as it is: its own steps, with TorchScript's fuser and without, each in
processes of their own and without logs.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from typing import Callable, Sequence

from fusiondoc.captures.capture import Capture, TimedRun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.process_records import SCRIPT, StepsTaken
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.errors import FusiondocError
from fusiondoc.model.bench import EAGER, LEAST_ROUNDS, of_processes
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Report
from fusiondoc.model.runs import STEP, Speed, Spread
from fusiondoc.runner.launch import ShowProgress, run
from fusiondoc.workflows.bench_turns import PROCESSES
from fusiondoc.workflows.speed import why_not_timed

WARM_UP = 6
"""Steps that do not count: nvFuser profiles, compiles forward, then backward."""
ROUNDS = 15
"""Of a model, in both processes together; of a script the steps of a process are put together to so many."""
_SECOND_WITHIN = 120.0
"""Seconds: programs that take longer than this run once each way, others twice."""
_OFF = {"PYTORCH_JIT": "0"}
"""torch.jit.script and trace return the Python that they were given (torch/jit/_state.py, 1.10 to 2.13)."""


@dataclass(frozen=True)
class _Way:
    name: str
    eager: str
    """What eager is, in words."""
    request: RunRequest


def time_script(
    request: RunRequest,
    capture: Capture,
    report: Report,
    tell: Callable[[str], None],
    progress: ShowProgress,
) -> TimedRun | None:
    """What was measured, or why nothing was; None if the user interrupted."""
    quiet = replace(request, timing=True, dumps=(), command=())
    fused = _Way("fused" if report.groups else "scripted", "", quiet)
    ways = [fused, _Way(EAGER, "the script with PYTORCH_JIT=0", _without(quiet, _OFF))]
    taken: dict[str, list[StepsTaken]] = {}
    dropped: tuple[str, ...] = ()
    began = time.perf_counter()
    tell("timing the script's steps without logs, with the fuser and without")
    number = 0
    for turn in (0, 1):
        for way in ways if not turn else reversed(ways):
            done = _run(way, capture, f"timing-{number}", progress)
            if isinstance(done, str) and way.name == EAGER and not turn:
                # Such as a program that freezes or saves what it scripted.
                way = ways[1] = _Way(EAGER, "TorchScript without a fuser", replace(quiet, fuser="none"))
                number += 1
                done = _run(way, capture, f"timing-{number}", progress)
            number += 1
            if done is None:
                return None
            if isinstance(done, str):
                return TimedRun(problem=done, dropped=dropped)
            dropped = dropped or done.request.dropped
            steps = done.records.script.steps or StepsTaken()
            why_not = _why_not(steps, request.step_function)
            if why_not is not None:
                return TimedRun(problem=why_not, dropped=dropped)
            taken.setdefault(way.name, []).append(steps)
        if time.perf_counter() - began > _SECOND_WITHIN:
            break
    return TimedRun(dropped=dropped, speeds=_speeds(fused.name, taken), note=_note(ways[1], taken))


def _without(request: RunRequest, variables: dict[str, str]) -> RunRequest:
    return replace(request, fuser="none", variables={**request.variables, **variables})


def _run(way: _Way, capture: Capture, folder: str, progress: ShowProgress) -> Capture | str | None:
    """The capture of a run; why there is none; None if the user interrupted."""
    with progress(f"{way.request.target.label} {way.name}, timed") as bar:
        try:
            done = run(way.request, Within(capture.path, folder), bar)
            failed = done.failure()
        except FusiondocError as error:
            failed = error
        else:
            if done.result.ended is Ended.INTERRUPTED:
                return None
    return done if failed is None else _problem(failed)


def _why_not(steps: StepsTaken, function: str | None) -> str | None:
    if steps.why_not is not None:
        return f"no speed: --step-function: {steps.why_not}"
    if not steps.count:
        if function is not None:
            return f"no speed: the program never called {function}"
        return (
            "no speed: the program steps no optimizer, so nothing tells where a step begins; name a function"
            " that does one: --step-function NAME"
        )
    if len(steps.ms) - WARM_UP < LEAST_ROUNDS:
        return (
            f"no speed: the program takes {steps.count} steps ({steps.by}); {WARM_UP} warm up, and at least"
            f" {LEAST_ROUNDS + 1} more are needed"
        )
    return None


def _speeds(other: str, taken: dict[str, list[StepsTaken]]) -> tuple[Speed, ...]:
    rounds = {name: [_rounds(one.ms[WARM_UP:]) for one in steps] for name, steps in taken.items()}
    rows = []
    for name in (EAGER, other):
        every = sorted(chain.from_iterable(rounds[name]))
        memory = [one.memory_bytes for one in taken[name] if one.memory_bytes is not None]
        rows.append(
            Speed(
                way=name,
                phase=STEP,
                inputs=0,
                ms=Spread(every[0], every[len(every) // 2], every[-1]),
                passes=sum(len(one.ms) - WARM_UP for one in taken[name]),
                first_ms=taken[name][0].ms[0],
                memory_bytes=max(memory, default=None),
                warmup_ms=taken[name][0].ms[:WARM_UP],
                ratio=of_processes(rounds[EAGER], rounds[name]) if name != EAGER else None,
            )
        )
    return tuple(rows)


def _rounds(ms: Sequence[float]) -> list[float]:
    """Means of stretches of equally many steps: every step counts, those that wait for data too."""
    size = max(1, len(ms) // ROUNDS)
    whole = [ms[start : start + size] for start in range(0, len(ms) - size + 1, size)]
    return [sum(one) / len(one) for one in whole]


def _note(eager: _Way, taken: dict[str, list[StepsTaken]]) -> str:
    first = taken[eager.name][0]
    processes = len(taken[eager.name])
    times = "one process" if processes == 1 else f"{processes} processes"
    return (
        f"a step is from one {first.by} to the next; {times} each way, without logs, {WARM_UP} steps of each"
        f" left out; eager is {eager.eager}"
    )


FOLDER, AGAIN = "timing", "timing-again"
"""The captures of the two timed processes, inside the capture of the run they belong to."""


def run_timing(
    request: RunRequest,
    capture: Capture,
    report: Report,
    tell: Callable[[str], None],
    progress: ShowProgress,
) -> bool:
    """Run the timed child and keep what it measured in ``capture``; False if the user interrupted."""
    why_not = why_not_timed(report, capture)
    if why_not is not None:
        tell(f"note: --time: {why_not}")
        capture.keep_timing(TimedRun(problem=why_not))
        return True
    if capture.records.target.how == SCRIPT:
        kept = time_script(request, capture, report, tell, progress)
        if kept is not None:
            capture.keep_timing(kept)
        return kept is not None
    timed = replace(request, timing=True, verify=False, dumps=(), command=())
    tell("timing without logs, eager against TorchScript")
    began = time.perf_counter()
    done = _timed(replace(timed, timing_rounds=_rounds_of(0)), capture, FOLDER, progress)
    if isinstance(done, FusiondocError):
        capture.keep_timing(TimedRun(problem=_problem(done)))
        return True
    dropped = done.request.dropped
    if dropped:
        tell(f"note: {', '.join(dropped)} left out of the timed run")
    failed = done.failure()
    kept = TimedRun(FOLDER, problem=None if failed is None else _problem(failed), dropped=dropped)
    capture.keep_timing(kept)
    if done.result.ended is Ended.INTERRUPTED:
        return False
    if failed is None and time.perf_counter() - began < _SECOND_WITHIN:
        second = _timed(replace(timed, timing_rounds=_rounds_of(1)), capture, AGAIN, progress)
        if isinstance(second, Capture) and second.result.ended is Ended.INTERRUPTED:
            return False
        if isinstance(second, Capture) and second.failure() is None:
            capture.keep_timing(replace(kept, again=AGAIN))
    return True


def _timed(
    request: RunRequest, capture: Capture, folder: str, progress: ShowProgress
) -> Capture | FusiondocError:
    """The capture of a timed process inside ``capture``, or why there is none."""
    with progress(f"{request.target.label} timed") as bar:
        try:
            return run(request, Within(capture.path, folder), bar)
        except FusiondocError as error:
            return error


def _rounds_of(process: int) -> int:
    """Two processes share the rounds, as in a bench: processes of one program differ by more than the rounds
    of one."""
    return ROUNDS // PROCESSES + (process < ROUNDS % PROCESSES)


def _problem(error: FusiondocError) -> str:
    return f"no speed: the run without logs failed: {error.in_one_line}"
