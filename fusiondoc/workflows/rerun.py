"""The rerun without fallback: torch hides why a group fell back, so its fallback is switched off and it
raises the error."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Callable, Mapping

from fusiondoc.captures.capture import Capture, FoundError, Rerun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.checks import DISABLE, merge_option_lists
from fusiondoc.fuser_knobs.entries import exists_in
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


NUMBER = "PYTORCH_NVFUSER_DISABLE_FALLBACK"


def fallback_off(torch: str, user: Mapping[str, str]) -> dict[str, str]:
    """The variables that switch the fallback off in this torch, with what the user has set in them.

    Torch 1.11 reads only PYTORCH_NVFUSER_DISABLE_FALLBACK (with atoi: a number), later ones the option
    ``fallback`` of PYTORCH_NVFUSER_DISABLE too (utils.cpp of each; strings of the wheels).
    For a torch without nvFuser both are given: a log with fallbacks then comes from another torch, which the
    program starts itself.
    """
    option = next(one for one in catalogue.options(DISABLE) if one.name == "fallback")
    number = next(one for one in catalogue.variables() if one.name == NUMBER)
    version = catalogue.as_version(torch)
    by_option, by_number = exists_in(option.live, version), exists_in(number.live, version)
    if not (by_option or by_number):
        by_option = by_number = True
    variables = {}
    if by_option:
        variables[DISABLE] = merge_option_lists(user.get(DISABLE, ""), "fallback")[0]
    if by_number:
        variables[NUMBER] = "1"
    return variables


def is_off(variables: Mapping[str, str]) -> bool:
    """Whether the fallback is switched off already."""
    number = variables.get(NUMBER, "").strip()
    return "fallback" in variables.get(DISABLE, "").split(",") or (number.isdigit() and int(number) != 0)
