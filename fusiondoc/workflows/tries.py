"""``--try``: the run again with each change that the findings suggest, one child each.

``--try``: how fast the run is with each change, in turns and without logs, as ``fusiondoc bench``.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Callable, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.diagnosis.changes_for_findings import Change, eval_mode, suggested
from fusiondoc.errors import FusiondocError
from fusiondoc.model.bench import FORWARD, LEAST_ROUNDS, TRAINING, Ratio, of_processes
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Try
from fusiondoc.runner.interpreter import find_python, inspect
from fusiondoc.runner.launch import ShowProgress, run
from fusiondoc.workflows.bench import silent
from fusiondoc.workflows.bench_turns import BenchRequest, Start, VariantRun, run_in_turns, start_variant
from fusiondoc.workflows.load import report_of
from fusiondoc.workflows.speed import interpreted

ROUND_SECONDS = 0.1
_VARIANTS = ("nvfuser", "nnc", "onednn", "none")
"""Fusers that a bench can run; the legacy fuser is none of them."""


def speeds_in_turns(requests: Sequence[tuple[RunRequest, str | None]]) -> list[Ratio | None]:
    """The speed of each request against the first, with its first inputs; None where it could not be timed.

    Args:
        requests: each with the fuser that its run had in effect.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    starts = [_start(request, fuser) for request, fuser in requests]
    present = [number for number, start in enumerate(starts) if start is not None]
    runs: dict[int, VariantRun] = {}
    with tempfile.TemporaryDirectory(prefix="fusiondoc-bench-") as name, silent() as bar:
        limits = BenchRequest(
            target=requests[0][0].target, pythons=(requests[0][0].python,), timeout=requests[0][0].timeout
        )
        started, interrupted = run_in_turns(
            [start for start in starts if start is not None], limits, Path(name) / "runs", bar, "", True
        )
        runs = dict(zip(present, started))
    if interrupted:
        raise KeyboardInterrupt
    asked = _times(runs.get(0))
    others = (_against(asked, _times(runs.get(number))) for number in range(1, len(requests)))
    return [None, *others]


def _start(request: RunRequest, fuser: str | None) -> Start | None:
    """What starts a process of it; None where it cannot be timed."""
    if fuser not in _VARIANTS or request.script or request.frontend not in ("auto", "torchscript"):
        return None
    wanted = BenchRequest(
        target=request.target,
        pythons=(request.python,),
        inputs=request.inputs,
        backward=request.backward,
        trace=request.trace,
        eval=request.eval,
        freeze=request.freeze,
        in_place_off=request.in_place_off,
        device=request.device,
        seed=request.seed or 0,
        knobs=request.knobs,
        round_seconds=ROUND_SECONDS,
        timeout=request.timeout,
        cwd=request.cwd,
        overlay=request.overlay,
    )
    try:
        interpreter = inspect(find_python(request.python))
    except FusiondocError:
        return None
    phase = TRAINING if request.backward else FORWARD
    return lambda folder: start_variant(wanted, str(fuser), interpreter, phase, folder)


def _times(run: VariantRun | None) -> list[list[float]]:
    """Rounds of each process; none of a run that stopped: its rounds are of other turns than those of the
    first."""
    return run.processes(0) if run is not None and run.why is None else []


def _against(asked: Sequence[Sequence[float]], times: Sequence[Sequence[float]]) -> Ratio | None:
    both = [pair for one, other in zip(asked, times) for pair in zip(one, other)]
    return of_processes(asked, times) if len(both) >= LEAST_ROUNDS else None


FOLDER = "tries"
"""The captures of the tries, inside the capture of the run they belong to."""

ASKED = "as asked"


def run_tries(
    request: RunRequest,
    capture: Capture,
    report: Report,
    with_eval: bool,
    tell: Callable[[str], None],
    progress: ShowProgress,
) -> bool:
    """Run every suggested change and keep the results in ``capture``; False if the user interrupted."""
    training = capture.records.target.training
    changes = suggested(report, request.options(), request.target.kind, training)
    if with_eval and training and not request.eval:
        changes.append(eval_mode())
    elif with_eval:
        tell(
            "note: --try-eval: the target is "
            + ("in eval mode already" if training is False else "no module")
        )
    if not changes:
        tell("note: --try: no finding suggests a change that can be made here")
        return True
    rows = [
        replace(
            measured(_named(ASKED, capture), (), report, capture, capture.failure()), frozen=_froze(capture)
        )
    ]
    ran = [(request, _timeable(rows[0], report))]
    finished = True
    for number, change in enumerate(changes, 1):
        tell(f"trying {number} of {len(changes)}: {change.name}")
        row, row_fuser, interrupted = _try(request, capture, change, number, progress)
        if interrupted:
            finished = False
            break
        rows.append(replace(row, against=_like(row, rows)))
        ran.append((changed(request, change), row_fuser))
    if finished:
        rows, finished = _timed(rows, ran, tell)
    capture.keep_tries(tuple(rows))
    return finished


def _timed(
    rows: list[Try], ran: list[tuple[RunRequest, str | None]], tell: Callable[[str], None]
) -> tuple[list[Try], bool]:
    """The rows with their speed against the first, and whether the user let that come to its end.

    What changed nothing is timed too: that it is no faster is worth knowing.
    """
    if sum(fuser is not None for _, fuser in ran) < 2 or ran[0][1] is None:
        return rows, True
    tell("timing what was tried, in turns and without logs")
    try:
        return [replace(row, speed=speed) for row, speed in zip(rows, _speeds(rows, ran))], True
    except KeyboardInterrupt:
        return rows, False


def _speeds(rows: list[Try], ran: list[tuple[RunRequest, str | None]]) -> list[Ratio | None]:
    """Each against the run that it is compared with."""
    found: list[Ratio | None] = [None] * len(rows)
    for first in sorted({row.against for row in rows}):
        these = [first, *(index for index, row in enumerate(rows) if row.against == first and index != first)]
        if len(these) > 1 and ran[first][1] is not None:
            for index, speed in zip(these[1:], speeds_in_turns([ran[index] for index in these])[1:]):
                found[index] = speed
    return found


def _timeable(row: Try, report: Report) -> str | None:
    """The fuser under which a bench can time it; None where it failed, or where its time would be that of
    NNC's evaluator."""
    if row.problem is not None or report.fuser is None or interpreted(report):
        return None
    return report.fuser.effective


def _try(
    request: RunRequest, capture: Capture, change: Change, number: int, progress: ShowProgress
) -> tuple[Try, str | None, bool]:
    """What it came to, the fuser to time it under, and whether the user interrupted."""
    folder = f"{FOLDER}/{number}-{_slug(change.name)}"
    with progress(f"{request.target.label} {change.name}") as bar:
        try:
            done = run(changed(request, change), Within(capture.path, folder), bar)
        except FusiondocError as error:
            return _failed(change, error), None, False
    if done.result.ended is Ended.INTERRUPTED:
        return _failed(change, FusiondocError("interrupted")), None, True
    report = report_of(done)
    row = measured(_named(change.name, done), change.codes, report, done, done.failure())
    return replace(row, capture=folder, frozen=_froze(done)), _timeable(row, report), False


def _froze(capture: Capture) -> bool:
    return bool(capture.records.target.frozen_here)


def _like(row: Try, before: list[Try]) -> int:
    """The first run with which it is fair to compare: a frozen module with a frozen one, if there is one."""
    alike = (index for index, one in enumerate(before) if one.frozen == row.frozen and one.problem is None)
    return next(alike, 0)


def _named(name: str, capture: Capture) -> str:
    """With what else is different about the run: a frozen module is compared with one that is not."""
    return name + (" (frozen)" if capture.records.target.frozen_here else "")


def changed(request: RunRequest, change: Change) -> RunRequest:
    """The request with the change made."""
    return replace(
        request,
        knobs={**request.knobs, **change.knobs},
        fuser=change.fuser or request.fuser,
        runs=request.runs * (2 if change.double_runs else 1),
        trace=request.trace or change.trace,
        eval=request.eval or change.eval,
        freeze=request.freeze or change.freeze,
        in_place_off=request.in_place_off or change.in_place_off,
        command=(),
    )


def measured(
    name: str, codes: tuple[str, ...], report: Report, capture: Capture, failed: FusiondocError | None
) -> Try:
    """The numbers of a run that the table compares."""
    rates = [kernel.gb_per_s.median for kernel in report.kernels if kernel.gb_per_s is not None]
    status: int | None = failed.exit_code if failed is not None else 0
    if capture.result.signal:
        status = None
    return Try(
        change=name,
        codes=codes,
        groups=report.fusion_groups,
        ops_fused=report.fused_operators,
        unfused=sum(row.count for row in report.unfused if row.ran is not False),
        fallbacks=sum(one.count for one in report.fallbacks),
        gb_per_s=float(median(rates)) if rates else None,
        steady_seconds=None if interpreted(report) else steady_seconds(report),
        exit=status,
        problem=None if failed is None else failed.in_one_line,
        wrong=sum(not row.same for row in report.verification) if report.verification else None,
    )


def steady_seconds(report: Report) -> float | None:
    """Median time of a steady pass, forward and backward together; None with fewer than two."""
    passes: dict[int, list[float | None]] = {}
    for one in report.iterations:
        passes.setdefault(one.index, []).append(one.seconds if one.stage == "steady" else None)
    times = [
        sum(part for part in parts if part is not None) for parts in passes.values() if None not in parts
    ]
    return float(median(times)) if len(times) > 1 else None


def _failed(change: Change, error: FusiondocError) -> Try:
    return Try(change.name, change.codes, 0, 0, 0, 0, None, None, error.exit_code, error.in_one_line)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=]+", "_", name).strip("_.")
