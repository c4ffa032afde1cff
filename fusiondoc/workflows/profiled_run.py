"""Where the time of a step goes: the run under the profiler. What it adds to a report: profile_of_run.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from fusiondoc.captures.capture import Capture, ProfiledRun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import IN_PROCESS, RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.errors import FusiondocError
from fusiondoc.runner.launch import run
from fusiondoc.runner.progress import ShowProgress

FOLDER = "profile"
"""The capture of the profiled run, inside the capture of the run it belongs to."""


def run_profile(
    request: RunRequest, capture: Capture, tell: Callable[[str], None], progress: ShowProgress
) -> bool:
    """Run the target under the profiler and keep that in ``capture``; False if the user interrupted."""
    if capture.records.target.how == IN_PROCESS:
        return True
    again = replace(request, profile=True, timing=False, verify=False, dumps=(), command=())
    tell("profiling without logs: where the time goes")
    with progress(f"{request.target.label} profiled") as bar:
        try:
            done = run(again, Within(capture.path, FOLDER), bar)
            failed = done.failure()
        except FusiondocError as error:
            capture.keep_profile(ProfiledRun(problem=_problem(error)))
            return True
    capture.keep_profile(ProfiledRun(FOLDER, None if failed is None else _problem(failed)))
    return done.result.ended is not Ended.INTERRUPTED


def _problem(error: FusiondocError) -> str:
    lines = [line.strip() for line in error.message.strip().split("\n") if line.strip()]
    return "no profile: the run under it failed: " + (lines[-1] if lines else type(error).__name__)[:200]
