"""``--time``: once more without logs, eager against fused. (named as probe/timing.py: what the child does)"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from fusiondoc.captures.capture import Capture, TimedRun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.script_records import SCRIPT
from fusiondoc.captures.store import Within
from fusiondoc.errors import FusiondocError
from fusiondoc.model.report import Report
from fusiondoc.runner.launch import run
from fusiondoc.runner.progress import ShowProgress
from fusiondoc.workflows.script_timing import time_script
from fusiondoc.workflows.speed import why_not_timed

FOLDER = "timing"
"""The capture of the timed run, inside the capture of the run it belongs to."""


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
    with progress(f"{request.target.label} timed") as bar:
        try:
            done = run(timed, Within(capture.path, FOLDER), bar)
            failed = done.failure()
        except FusiondocError as error:
            capture.keep_timing(TimedRun(problem=_problem(error)))
            return True
    dropped = done.request.dropped
    if dropped:
        tell(f"note: {', '.join(dropped)} left out of the timed run")
    capture.keep_timing(TimedRun(FOLDER, None if failed is None else _problem(failed), dropped))
    return done.result.ended is not Ended.INTERRUPTED


def _problem(error: FusiondocError) -> str:
    lines = [line.strip() for line in error.message.strip().split("\n") if line.strip()]
    return "no speed: the run without logs failed: " + (lines[-1] if lines else type(error).__name__)[:200]
