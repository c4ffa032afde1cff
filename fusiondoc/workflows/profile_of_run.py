"""What a profiled run adds to a report: where the time goes, and its trace with the groups named. Starts no
process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.capture import Capture
from fusiondoc.diagnosis.step_time import groups_of_units, with_step_times
from fusiondoc.errors import CannotRun, FusiondocError
from fusiondoc.model.report import Report
from fusiondoc.model.runs import STEP
from fusiondoc.parsers.profiler_trace import read_places, read_trace
from fusiondoc.parsers.trace_units import NoTrace, read_events
from fusiondoc.reports.named_trace import named_trace
from fusiondoc.workflows.speed import interpreted

TRACE, PLACES = "trace.json.gz", "places.json.gz"
"""What probe/step_profile.py writes there."""
EVALUATED = "NNC ran groups through its own evaluator (no LLVM), so what they take says nothing about kernels"


def trace_file(capture: Capture) -> Path | None:
    """The profiler's trace in a capture; None if there is none."""
    folder = capture.inner(capture.profile.capture) if capture.profile is not None else None
    path = folder / TRACE if folder is not None else None
    return path if path is not None and path.is_file() and not path.is_symlink() else None


def with_profile(report: Report, capture: Capture) -> Report:
    """The report with what the profiled run shows; as it is if there was none."""
    kept = capture.profile
    if kept is None:
        return report
    path = trace_file(capture)
    if kept.problem is not None or path is None:
        return replace(report, steps_note=kept.problem or "no profile: the profiler wrote no trace")
    try:
        told = Capture(path.parent).records.profiled
        if told is None:
            return replace(report, steps_note="no profile: the profiled run did not come to its end")
        places = path.parent / PLACES
        known = read_places(read_events(places)) if places.is_file() else {}
        if told.unprofiled_ms is None:
            told = replace(told, unprofiled_ms=_timed_ms(report))
        made = with_step_times(report, read_trace(read_events(path), known), told)
    except (NoTrace, FusiondocError) as error:
        return replace(report, steps_note=f"no profile: {error}")
    if made.steps is not None and interpreted(report):
        return replace(made, steps_note="; ".join(filter(None, (made.steps_note, EVALUATED))))
    return made


def _timed_ms(report: Report) -> float | None:
    """Of a step of a script, whose profiled run times none without the profiler."""
    return next((one.ms.median for one in report.speed if one.phase == STEP and one.way != "eager"), None)


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
