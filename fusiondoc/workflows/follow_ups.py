"""The further runs after a run, in processes of their own: ``--time`` and
``--try``.

``--time`` runs it without logs, eager against fused; a program that runs as it is
takes its own steps, with TorchScript's fuser and without. ``--try`` runs it with
each change that the findings suggest, one child each, and then times these in turns
and without logs, as ``fusiondoc bench`` does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median

from fusiondoc.captures.capture import Capture, TimedRun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.process_records import SCRIPT, StepsTaken
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.changes.change import Change
from fusiondoc.errors import FusiondocError
from fusiondoc.fusers import DYNAMO
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.model import dataclass
from fusiondoc.model.bench import EAGER, LEAST_ROUNDS, Ratio, of_processes
from fusiondoc.model.change_plan import Try
from fusiondoc.model.report import Report
from fusiondoc.model.runs import STEP, Speed, Spread
from fusiondoc.runner.launch import ShowProgress, run
from fusiondoc.workflows.bench_turns import (
    PROCESSES,
)
from fusiondoc.workflows.load import report_of
from fusiondoc.workflows.speed import interpreted, why_not_timed
from fusiondoc.workflows.speeds_in_turns import speeds_in_turns

_TRIES = "tries"
"""The folder for captures of the tries, inside the capture of their run."""

UNCHANGED = "unchanged"


def run_tries(
    request: RunRequest,
    capture: Capture,
    report: Report,
    notify: Callable[[str], None],
    progress: ShowProgress,
) -> bool:
    """Run every suggested change and keep the results in ``capture``; False if the
    user interrupted."""
    from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
    from fusiondoc.diagnosis.suggested_changes import SuggestedChanges

    program = UserProgram.of(request, capture, report)
    changes = SuggestedChanges.of_program(program).of_run
    if not changes:
        notify("note: --try: no finding suggests a change that can be made here")
        return True
    rows = [
        replace(
            measured(
                _named(UNCHANGED, capture), (), report, capture, capture.error()
            ),
            frozen=_froze(capture),
        )
    ]
    ran = [(request, _timeable(rows[0], report, request))]
    finished = True
    for number, change in enumerate(changes, 1):
        notify(f"trying {number} of {len(changes)}: {change.title}")
        row, row_fuser, interrupted = try_change(
            request, capture, change, f"{_TRIES}/{number}", progress
        )
        if interrupted:
            finished = False
            break
        rows.append(replace(row, against=_like(row, rows)))
        ran.append((changed(request, change), row_fuser))
    if finished:
        rows, finished = _with_speeds(rows, ran, notify)
    capture.keep_tries(tuple(rows))
    return finished


def _with_speeds(
    rows: list[Try],
    ran: list[tuple[RunRequest, str | None]],
    notify: Callable[[str], None],
) -> tuple[list[Try], bool]:
    """Return the rows with their speed relative to the first, and whether the
    timing ran to its end without an interruption of the user.

    Settings that changed nothing are timed too: that they are no faster is worth
    knowing.
    """
    if sum(fuser is not None for _, fuser in ran) < 2 or ran[0][1] is None:
        return rows, True
    notify("timing the changes, in turns and without logs")
    try:
        return [
            replace(row, speed=speed)
            for row, speed in zip(rows, _speeds_of_tries(rows, ran))
        ], True
    except KeyboardInterrupt:
        return rows, False


def _speeds_of_tries(
    rows: list[Try], ran: list[tuple[RunRequest, str | None]]
) -> list[Ratio | None]:
    """The speed of each run relative to the run that it is compared with."""
    found: list[Ratio | None] = [None] * len(rows)
    for first in sorted({row.against for row in rows}):
        compared = []
        for index, row in enumerate(rows):
            if row.against == first and index != first:
                compared.append(index)
        if not compared or ran[first][1] is None:
            continue
        speeds = speeds_in_turns([ran[first], *(ran[index] for index in compared)])
        for index, speed in zip(compared, speeds[1:]):
            found[index] = speed
    return found


def _timeable(row: Try, report: Report, request: RunRequest) -> str | None:
    """The fuser under which a bench can time it; None if the run failed, if its
    kernels were not compiled, or if it used an interpreter."""
    if (
        row.problem is not None
        or report.fuser is None
        or request.no_run
        or interpreted(report)
    ):
        return None
    return report.fuser.effective


def try_change(
    request: RunRequest,
    capture: Capture,
    change: Change,
    folder_name: str,
    progress: ShowProgress,
) -> tuple[Try, str | None, bool]:
    """The result of a run with a change, the fuser to time it under, and whether
    the user interrupted.

    Args: folder_name: beginning of the name of its folder inside ``capture``, such
        as "tries/1".
    """
    folder = f"{folder_name}-{_slug(change.title)}"
    with progress(f"{request.target.label} {change.title}") as bar:
        try:
            done = run(changed(request, change), Within(capture.path, folder), bar)
        except FusiondocError as error:
            return _failed(change, error), None, False
    if done.result.ended is Ended.INTERRUPTED:
        return _failed(change, FusiondocError("interrupted")), None, True
    report = report_of(done)
    row = measured(
        _named(change.title, done), change.codes, report, done, done.error()
    )
    row = replace(row, capture=folder, frozen=_froze(done), setting=change.setting)
    return row, _timeable(row, report, request), False


def _froze(capture: Capture) -> bool:
    return bool(capture.records.target.frozen_here)


def _like(row: Try, before: list[Try]) -> int:
    """The first run with which it is fair to compare: a frozen module with a frozen
    one, if there is one."""
    alike = (
        index
        for index, earlier in enumerate(before)
        if earlier.frozen == row.frozen and earlier.problem is None
    )
    return next(alike, 0)


def _named(name: str, capture: Capture) -> str:
    """The name of a run, with a note if its module is frozen and that of the first
    run is not."""
    return name + (" (frozen)" if capture.records.target.frozen_here else "")


def changed(request: RunRequest, change: Change) -> RunRequest:
    """The request with the change made."""
    return replace(request.with_setting(change.setting), command=())


def measured(
    name: str,
    codes: tuple[str, ...],
    report: Report,
    capture: Capture,
    failed: FusiondocError | None,
) -> Try:
    """The figures of a run that the table compares."""
    rates = []
    for kernel in report.kernels:
        if kernel.gb_per_s is not None:
            rates.append(kernel.gb_per_s.median)
    status: int | None = failed.exit_code if failed is not None else 0
    if capture.result.signal:
        status = None
    wrong = None
    if report.verification:
        wrong = sum(not row.same for row in report.verification)
    return Try(
        change=name,
        codes=codes,
        groups=report.fusion_groups,
        ops_fused=report.fused_operators,
        unfused=sum(row.count for row in report.rows_that_may_have_run),
        fallbacks=report.times_fallen_back,
        gb_per_s=float(median(rates)) if rates else None,
        steady_seconds=None if interpreted(report) else steady_seconds(report),
        exit=status,
        problem=None if failed is None else failed.in_one_line,
        wrong=wrong,
    )


def steady_seconds(report: Report) -> float | None:
    """Median time of a steady pass, forward and backward together; None with fewer
    than two."""
    passes: dict[int, float] = {}
    not_steady: set[int] = set()
    for iteration in report.iterations:
        if iteration.stage != "steady" or iteration.seconds is None:
            not_steady.add(iteration.index)
        else:
            passes[iteration.index] = (
                passes.get(iteration.index, 0.0) + iteration.seconds
            )
    times = []
    for index, seconds in passes.items():
        if index not in not_steady:
            times.append(seconds)
    if len(times) > 1:
        return median(times)
    return None


def _failed(change: Change, error: FusiondocError) -> Try:
    return Try(
        change.title,
        change.codes,
        groups=0,
        ops_fused=0,
        unfused=0,
        fallbacks=0,
        gb_per_s=None,
        steady_seconds=None,
        exit=error.exit_code,
        problem=error.in_one_line,
        setting=change.setting,
    )


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=]+", "_", name).strip("_.")


_WARM_UP = 6
"""Steps that do not count: torch profiles, then a fuser compiles forward, then
backward."""
_ROUNDS = 15
"""Rounds of a model, in both processes together; the steps of a script are combined
into that many rounds."""
_SECOND_WITHIN = 60.0
"""Seconds: longer programs run once each way, others twice."""
_OFF = {"PYTORCH_JIT": "0"}
"""torch.jit.script and trace return the Python that they were given
(torch/jit/_state.py, 1.10 to 2.13)."""


@dataclass(frozen=True)
class _Way:
    name: str
    eager: str
    """The eager side, in words."""
    request: RunRequest


def _time_script(
    request: RunRequest,
    capture: Capture,
    report: Report,
    notify: Callable[[str], None],
    progress: ShowProgress,
) -> TimedRun | None:
    """The measured rows, or why there are none; None if the user interrupted."""
    quiet = replace(request, timing=True, dumps=(), command=())
    fused = _Way("fused" if report.groups else "scripted", "", quiet)
    ways = [
        fused,
        _Way(EAGER, "the script with PYTORCH_JIT=0", _without(quiet, _OFF)),
    ]
    taken: dict[str, list[StepsTaken]] = {}
    dropped: tuple[str, ...] = ()
    began = time.perf_counter()
    notify("timing the script's steps without logs, with the fuser and without")
    number = 0
    for turn in (0, 1):
        for way in ways if not turn else reversed(ways):
            done = _run_way(way, capture, f"timing-{number}", progress)
            if isinstance(done, str) and way.name == EAGER and not turn:
                # Eager fails for, say, a program that freezes or saves its script.
                way = ways[1] = _Way(
                    EAGER,
                    "TorchScript without a fuser",
                    replace(quiet, fuser="none"),
                )
                number += 1
                done = _run_way(way, capture, f"timing-{number}", progress)
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
    return TimedRun(
        dropped=dropped,
        speeds=_speeds_of_script(fused.name, taken),
        note=_note(ways[1], taken),
    )


def _without(request: RunRequest, variables: dict[str, str]) -> RunRequest:
    return replace(
        request, fuser="none", variables={**request.variables, **variables}
    )


def _run_way(
    way: _Way, capture: Capture, folder: str, progress: ShowProgress
) -> Capture | str | None:
    """The capture of a run; why there is none; None if the user interrupted."""
    with progress(f"{way.request.target.label} {way.name}, timed") as bar:
        try:
            done = run(way.request, Within(capture.path, folder), bar)
            failed = done.error()
        except FusiondocError as error:
            failed = error
        else:
            if done.result.ended is Ended.INTERRUPTED:
                return None
    if failed is None:
        return done
    return _problem(failed)


def _why_not(steps: StepsTaken, function: str | None) -> str | None:
    if steps.why_not is not None:
        return f"no speed: --step-function: {steps.why_not}"
    if not steps.count:
        if function is not None:
            return f"no speed: the program never called {function}"
        return (
            "no speed: the program steps no optimizer, so the beginning of a step is unknown; name a function"
            " that does one: --step-function NAME"
        )
    if len(steps.ms) - _WARM_UP < LEAST_ROUNDS:
        return (
            f"no speed: the program takes {steps.count} steps ({steps.by}); {_WARM_UP} warm up, and at least"
            f" {LEAST_ROUNDS + 1} more are needed"
        )
    return None


def _speeds_of_script(
    other: str, taken: dict[str, list[StepsTaken]]
) -> tuple[Speed, ...]:
    rounds = {}
    for name, steps in taken.items():
        rounds[name] = [_rounds(step.ms[_WARM_UP:]) for step in steps]
    rows = []
    for name in (EAGER, other):
        every = sorted(chain.from_iterable(rounds[name]))
        memory = []
        for taken_steps in taken[name]:
            if taken_steps.memory_bytes is not None:
                memory.append(taken_steps.memory_bytes)
        ratio = None
        if name != EAGER:
            ratio = of_processes(rounds[EAGER], rounds[name])
        rows.append(
            Speed(
                way=name,
                phase=STEP,
                inputs=0,
                ms=Spread(every[0], every[len(every) // 2], every[-1]),
                passes=sum(
                    len(taken_steps.ms) - _WARM_UP for taken_steps in taken[name]
                ),
                first_ms=taken[name][0].ms[0],
                memory_bytes=max(memory, default=None),
                warmup_ms=taken[name][0].ms[:_WARM_UP],
                ratio=ratio,
            )
        )
    return tuple(rows)


def _rounds(ms: Sequence[float]) -> list[float]:
    """Means of stretches with equal numbers of steps: every step counts, also those
    that wait for data."""
    size = max(1, len(ms) // _ROUNDS)
    whole = []
    for start in range(0, len(ms) - size + 1, size):
        whole.append(ms[start : start + size])
    return [sum(interval) / len(interval) for interval in whole]


def _note(eager: _Way, taken: dict[str, list[StepsTaken]]) -> str:
    first = taken[eager.name][0]
    processes = len(taken[eager.name])
    times = "one process" if processes == 1 else f"{processes} processes"
    return (
        f"a step is from one {first.by} to the next; {times} each way, without logs, {_WARM_UP} steps of each"
        f" left out; eager is {eager.eager}"
    )


_TIMING, _TIMED_AGAIN = "timing", "timing-again"
"""The captures of the two timed processes, inside the capture of the run they
belong to."""


def run_timing(
    request: RunRequest,
    capture: Capture,
    report: Report,
    notify: Callable[[str], None],
    progress: ShowProgress,
) -> bool:
    """Run the timed child and keep its measurements in ``capture``; False if the
    user interrupted."""
    why_not = why_not_timed(report, capture)
    if why_not is not None:
        notify(f"note: --time: {why_not}")
        capture.keep_timing(TimedRun(problem=why_not))
        return True
    if capture.records.target.how == SCRIPT:
        kept = _time_script(request, capture, report, notify, progress)
        if kept is not None:
            capture.keep_timing(kept)
        return kept is not None
    timed = replace(request, timing=True, verify=False, dumps=(), command=())
    compiled = DYNAMO if report.compiled is not None else TORCHSCRIPT
    notify(f"timing without logs, eager against {compiled.title}")
    began = time.perf_counter()
    done = _timed_run(
        replace(timed, timing_rounds=_rounds_of(0)), capture, _TIMING, progress
    )
    if isinstance(done, FusiondocError):
        capture.keep_timing(TimedRun(problem=_problem(done)))
        return True
    dropped = done.request.dropped
    if dropped:
        notify(f"note: {', '.join(dropped)} left out of the timed run")
    failed = done.error()
    kept = TimedRun(
        _TIMING,
        problem=None if failed is None else _problem(failed),
        dropped=dropped,
    )
    capture.keep_timing(kept)
    if done.result.ended is Ended.INTERRUPTED:
        return False
    if failed is None and time.perf_counter() - began < _SECOND_WITHIN:
        second = _timed_run(
            replace(timed, timing_rounds=_rounds_of(1)),
            capture,
            _TIMED_AGAIN,
            progress,
        )
        if isinstance(second, Capture) and second.result.ended is Ended.INTERRUPTED:
            return False
        if isinstance(second, Capture) and second.error() is None:
            capture.keep_timing(replace(kept, again=_TIMED_AGAIN))
    return True


def _timed_run(
    request: RunRequest, capture: Capture, folder: str, progress: ShowProgress
) -> Capture | FusiondocError:
    """Return the capture of a timed process inside ``capture``, or why there is
    none."""
    with progress(f"{request.target.label} timed") as bar:
        try:
            return run(request, Within(capture.path, folder), bar)
        except FusiondocError as error:
            return error


def _rounds_of(process: int) -> int:
    """Number of rounds of a process. Two processes share the rounds, as in a bench:
    processes of one program differ by more than the rounds of one."""
    return _ROUNDS // PROCESSES + (process < _ROUNDS % PROCESSES)


def _problem(error: FusiondocError) -> str:
    return f"no speed: the run without logs failed: {error.in_one_line}"
