"""What a profiled run adds to a report: where the time goes, and its trace with the groups named. Starts no
process.

A trace of torch's profiler with the groups of the report named in it, for Perfetto and chrome://tracing.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.diagnosis.step_time import groups_of_units, with_step_times
from fusiondoc.errors import CannotRun, FusiondocError
from fusiondoc.model.report import Group, Report
from fusiondoc.model.runs import STEP
from fusiondoc.model.typed_fields import sound
from fusiondoc.parsers.profiler_trace import read_places, read_trace
from fusiondoc.parsers.trace_units import NoTrace, Unit, read_events
from fusiondoc.reports.wording import runs_of
from fusiondoc.workflows.speed import interpreted


def named_trace(
    events: Sequence[Any], groups: Mapping[int, Sequence[Group]], units: Sequence[Unit], packed: bool
) -> bytes:
    """The file. A run of a group, and what it launched, are called ``G2: mul, add`` there; arguments tell the
    kernel's own name, the operators, the phase and the modules.

    Args:
        events: of the trace as torch wrote it.
        groups: the groups that a unit may be, by the index of its event.
        packed: with gzip, as both programs read it.
    """
    made = list(events)
    for unit in units:
        for group in groups.get(unit.event, ())[:1]:
            for index in (unit.event, *(one.event for one in unit.launched)):
                made[index] = _named(made[index], group)
    text = json.dumps({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": sound(made)})
    return gzip.compress(text.encode("utf-8"), mtime=0) if packed else text.encode("utf-8")


def _named(event: Mapping[str, Any], group: Group) -> dict[str, Any]:
    told = event.get("args")
    arguments = dict(told) if isinstance(told, dict) else {}
    arguments.update(kernel=event.get("name"), group=group.id, operators=list(group.ops), phase=group.phase)
    if group.layers:
        arguments["layers"] = list(group.layers)
    return {**event, "name": f"{group.id}: {', '.join(runs_of(group.ops))}", "args": arguments}


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
