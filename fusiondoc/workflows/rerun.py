"""The rerun without fallback: torch hides why a group fell back, so it is asked to raise the error."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Callable

from fusiondoc.captures.capture import Capture, FoundError, Rerun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.fuser_knobs.fallback import fallback_off, is_off
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.error_texts import PROGRAM, FuserError, fuser_error, read_error
from fusiondoc.runner.launch import run
from fusiondoc.runner.progress import ShowProgress

FOLDER = "rerun"
"""The rerun's own capture, inside the capture of the run it belongs to."""

_LOG_BYTES = 64 << 20
"""How much of the rerun's log is searched for an error that the program caught."""


def wants_rerun(report: Report, capture: Capture) -> bool:
    """Whether groups fell back, the log does not say why, and a rerun may."""
    return (
        any(fallback.error is None for fallback in report.fallbacks)
        and not is_off(os.environ)
        and capture.result.ended not in (Ended.TIMED_OUT, Ended.INTERRUPTED)
    )


def rerun_without_fallback(
    request: RunRequest, capture: Capture, tell: Callable[[str], None], progress: ShowProgress
) -> None:
    """Run the request once more with nvFuser's fallback switched off; what it shows goes into ``capture``."""
    torch = str(capture.request.torch)
    variables = fallback_off(torch, os.environ)
    again = replace(request, variables={**request.variables, **variables}, verify=False)
    tell("note: groups fell back; running once more without fallback to see why (--no-rerun)")
    with progress(f"{request.target.label} without fallback") as bar:
        done = run(again, Within(capture.path, FOLDER), bar)
    error = _error(done)
    found = None if error is None else FoundError(str(error), error.kind)
    capture.keep_rerun(Rerun(variables, FOLDER, done.result.ended, done.result.signal, found))


def _error(capture: Capture) -> FuserError | None:
    """The error that ended the rerun, or one in its log that the program caught."""
    told = capture.records.error
    error = None
    if told is not None and told.stage not in ("interrupted", "exit"):
        error = read_error(f"{told.type}: {told.message}")
    if error is not None and error.kind != PROGRAM:
        return error
    try:
        with capture.log_path.open("rb") as log:
            text = log.read(_LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return error
    return fuser_error(text) or error
