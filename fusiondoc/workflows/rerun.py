"""The rerun without fallback: torch hides why a group fell back, so it is asked to raise the error."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Callable

from fusiondoc.captures.capture import Capture
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
    result = capture.result
    return (
        any(fallback.error is None for fallback in report.fallbacks)
        and not is_off(os.environ)
        and not (result.get("timed_out") or result.get("interrupted"))
    )


def rerun_without_fallback(
    request: RunRequest, capture: Capture, tell: Callable[[str], None], progress: ShowProgress
) -> None:
    """Run the request once more with nvFuser's fallback switched off; what it shows goes into ``capture``."""
    torch = str(capture.request.get("torch"))
    variables = fallback_off(torch, os.environ)
    again = replace(request, variables={**request.variables, **variables}, verify=False)
    tell("note: groups fell back; running once more without fallback to see why (--no-rerun)")
    with progress(f"{request.target.label} without fallback") as bar:
        done = run(again, Within(capture.path, FOLDER), bar)
    error = _error(done)
    result = done.result
    capture.add(
        "rerun.json",
        {
            "variables": variables,
            "capture": FOLDER,
            "ended": _ending(result),
            "signal": result.get("signal"),
            "error": None if error is None else {"kind": error.kind, "text": str(error)},
        },
    )


def _ending(result: dict[str, Any]) -> str:
    for name, words in (("interrupted", "interrupted"), ("timed_out", "timed out"), ("signal", "signal")):
        if result.get(name):
            return words
    return "done" if result.get("exit_status") == 0 else "failed"


def _error(capture: Capture) -> FuserError | None:
    """The error that ended the rerun, or one in its log that the program caught."""
    told = capture.error
    error = None
    if told is not None and told.get("stage") not in ("interrupted", "exit"):
        error = read_error(f"{told.get('type')}: {told.get('message')}")
    if error is not None and error.kind != PROGRAM:
        return error
    try:
        with capture.log_path.open("rb") as log:
            text = log.read(_LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return error
    return fuser_error(text) or error
