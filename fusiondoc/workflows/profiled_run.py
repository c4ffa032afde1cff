"""Where the time of a step goes: the run under torch's profiler, and what it adds to a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Callable

from fusiondoc.captures.capture import Capture, ProfiledRun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import IN_PROCESS, RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.diagnosis.step_time import groups_of_units, with_step_times
from fusiondoc.errors import CannotRun, FusiondocError
from fusiondoc.model.report import Report
from fusiondoc.parsers.profiler_trace import read_places, read_trace
from fusiondoc.parsers.trace_units import NoTrace, read_events
from fusiondoc.reports.named_trace import named_trace
from fusiondoc.runner.launch import run
from fusiondoc.runner.progress import ShowProgress
from fusiondoc.workflows.speed import interpreted

FOLDER = "profile"
"""The capture of the profiled run, inside the capture of the run it belongs to."""
TRACE, PLACES = "trace.json.gz", "places.json.gz"
"""What probe/step_profile.py writes there."""
EVALUATED = "NNC ran groups through its own evaluator (no LLVM), so what they take says nothing about kernels"


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


def trace_file(capture: Capture) -> Path | None:
    """The profiler's trace in a capture; None if there is none."""
    kept = capture.profile
    path = capture.path / kept.capture / TRACE if kept is not None and kept.capture is not None else None
    return path if path is not None and path.is_file() else None


def with_profile(report: Report, capture: Capture) -> Report:
    """The report with what the profiled run shows; as it is if there was none."""
    kept = capture.profile
    if kept is None:
        return report
    path = trace_file(capture)
    if kept.problem is not None or path is None or kept.capture is None:
        return replace(report, steps_note=kept.problem or "no profile: the profiler wrote no trace")
    try:
        told = Capture(path.parent).records.profiled
        if told is None:
            return replace(report, steps_note="no profile: the profiled run did not come to its end")
        places = path.parent / PLACES
        known = read_places(read_events(places)) if places.is_file() else {}
        made = with_step_times(report, read_trace(read_events(path), known), told)
    except (NoTrace, FusiondocError) as error:
        return replace(report, steps_note=f"no profile: {error}")
    if made.steps is not None and interpreted(report):
        return replace(made, steps_note="; ".join(filter(None, (made.steps_note, EVALUATED))))
    return made


def named_trace_of(capture: Capture, report: Report, packed: bool) -> bytes:
    """The trace of the profiled run with the groups of the report named.

    Raises:
        CannotRun: there is no such trace; the message says why.
    """
    path = trace_file(capture)
    if path is None:
        why = report.steps_note or "no profile: the run under the profiler did not come to its end"
        raise CannotRun(why, "Run it again with --time and without --trace-file to see the report alone.")
    try:
        events = read_events(path)
        trace = read_trace(events)
    except NoTrace as error:
        raise CannotRun(str(error), "Run it again.") from None
    return named_trace(events, groups_of_units(report, trace), trace.units, packed)
