"""The parts of a report that come from the timed and the profiled runs of a
capture: the speed, or why there is none, the parts of a step's time, and a trace of
torch's profiler with the groups named, for Perfetto and chrome://tracing.

Starts no process.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import TimedPasses
from fusiondoc.captures.process_records import SCRIPT
from fusiondoc.captures.request import IN_PROCESS
from fusiondoc.diagnosis.profile_ties import groups_of_units
from fusiondoc.diagnosis.step_time import with_step_times
from fusiondoc.errors import CannotRun, FusiondocError
from fusiondoc.fusers import FUSER_OF_KIND, with_evaluator
from fusiondoc.model.bench import EAGER, LEAST_ROUNDS, Ratio, of_processes
from fusiondoc.model.report import Group, Report
from fusiondoc.model.runs import STEP, Speed, Spread
from fusiondoc.model.typed_fields import sound
from fusiondoc.parsers.profiler_trace import (
    NoTrace,
    Unit,
    read_events,
    read_origins,
    read_trace,
)
from fusiondoc.views.formatting import runs_of

INTERPRETED = f"no speed: this torch has no LLVM, so {with_evaluator()} only interprets groups"
NOT_REACHED = "no speed: the program never reached TorchScript, so there is nothing to compare with eager"
BLOCK = "no speed: a block of a program is not run again; fusiondoc.diagnose with time=True times a model"
NOT_COMPILED = "no speed: --no-run generated kernels and compiled none, so nothing was computed"
NOT_ASKED_SCRIPT = "not timed: --time runs the script again, without logs, with the fuser and without"
NOT_ASKED = (
    "not timed: --time runs the model once more, without logs, eager against fused"
)


def _has_evaluator(group: Group) -> bool:
    fuser = FUSER_OF_KIND.get(group.kind)
    return fuser is not None and fuser.limits.evaluator_without_llvm


def interpreted(report: Report) -> bool:
    """True if groups ran through their fuser's interpreter, some hundred times
    slower than any kernel: on the CPU where torch is built without LLVM. Such times
    show nothing about fusion."""
    return report.environment.get("llvm") == "False" and any(
        _has_evaluator(group) and any("device=cpu" in text for text in group.inputs)
        for group in report.groups
    )


def why_not_timed(report: Report, capture: Capture) -> str | None:
    """Return why timing an eager pass beside a fused one would be meaningless; None
    if it would not."""
    if (
        capture.records.target.how == SCRIPT
        and report.script is not None
        and not report.script.reached
    ):
        return NOT_REACHED
    if capture.records.target.how == IN_PROCESS:
        return BLOCK
    if interpreted(report):
        return INTERPRETED
    return None


def speed_of(
    capture: Capture, report: Report
) -> tuple[tuple[Speed, ...], str | None]:
    """The rows of the timed run, and a note: why there are none, or how they were
    timed."""
    kept = capture.timing
    if kept is None:
        return (), _why_no_speed(capture, report)
    if kept.speeds:
        return kept.speeds, kept.note
    names = [name for name in (kept.capture, kept.again) if name is not None]
    processes = [_timed_passes(capture, name) for name in names]
    speeds: list[Speed] = []
    eager: str | None = None
    for passes in processes[0] if processes else ():
        row = _row(processes, passes, report)
        if row is not None:
            speeds.append(row)
            eager = passes.eager
    if kept.problem is not None or not speeds:
        return tuple(speeds), kept.problem
    times = "two processes" if sum(map(bool, processes)) > 1 else "a process"
    note = f"timed in {times} without logs; eager is {eager}"
    if kept.dropped:
        note += f"; your {', '.join(kept.dropped)} was left out there"
    return tuple(speeds), note


def _why_no_speed(capture: Capture, report: Report) -> str | None:
    """Return why there is no speed; None also if nothing fused: a report of a
    failed run needs no advice on speed."""
    if not report.groups:
        return None
    if capture.request.options.no_run:
        return NOT_COMPILED
    script = capture.records.target.how == SCRIPT
    return why_not_timed(report, capture) or (
        NOT_ASKED_SCRIPT if script else NOT_ASKED
    )


def _row(
    processes: Sequence[Sequence[TimedPasses]], passes: TimedPasses, report: Report
) -> Speed | None:
    """The row of one way to run, over all processes that measured it."""
    same = _same_in(processes, passes, passes.way)
    speed = _together(same)
    if speed is None:
        return None
    if passes.way == EAGER:
        return replace(speed, way=EAGER, ratio=_against_eager(same, []))
    # A program without a group is not fused, whatever was requested.
    way = passes.way if report.groups else "scripted"
    return replace(
        speed,
        way=way,
        ratio=_against_eager(same, _same_in(processes, passes, EAGER)),
    )


def _same_in(
    processes: Sequence[Sequence[TimedPasses]], passes: TimedPasses, way: str
) -> list[TimedPasses]:
    """The passes of each process that ran that way, with the same inputs in the
    same phase."""
    wanted = (way, passes.phase, passes.inputs)
    found = []
    for timed in processes:
        found.append(
            next(
                (
                    known
                    for known in timed
                    if (known.way, known.phase, known.inputs) == wanted
                ),
                None,
            )
        )
    return [speed for speed in found if speed is not None]


def _together(same: Sequence[TimedPasses]) -> Speed | None:
    """A row over the rounds of all processes; the other figures are those of the
    first process."""
    speed = same[0].as_speed() if same else None
    rounds: list[float] = []
    for each in same:
        rounds.extend(each.rounds)
    rounds.sort()
    if speed is None or len(same) == 1 or not rounds:
        return speed
    memory = [
        speed.memory_bytes for speed in same if speed.memory_bytes is not None
    ]
    return replace(
        speed,
        ms=Spread(rounds[0], rounds[len(rounds) // 2], rounds[-1]),
        passes=sum(speed.passes for speed in same),
        memory_bytes=max(memory, default=None),
    )


def _against_eager(
    same: Sequence[TimedPasses], eager: Sequence[TimedPasses]
) -> Ratio | None:
    """The speed relative to eager; None for eager itself, and with too few rounds
    for an interval."""
    pairs = 0
    for first, other in zip(eager, same):
        pairs += min(len(first.rounds), len(other.rounds))
    if pairs < LEAST_ROUNDS or not all(
        value > 0 for speed in (*eager, *same) for value in speed.rounds
    ):
        return None
    return of_processes(
        [speed.rounds for speed in eager], [speed.rounds for speed in same]
    )


def _timed_passes(capture: Capture, name: str | None) -> tuple[TimedPasses, ...]:
    folder = capture.inner(name)
    if folder is None:
        return ()
    try:
        return capture.further(folder).records.speeds
    except FusiondocError:
        return ()


def named_trace(
    events: Sequence[Any],
    groups: Mapping[int, Sequence[Group]],
    units: Sequence[Unit],
    packed: bool,
) -> bytes:
    """Return the content of the trace file. In it a run of a group, and its
    launched kernels, are called ``G2: mul, add``; their arguments hold the kernel's
    own name, the operators, the phase and the modules.

    Args:
        events: those of torch's trace.
        groups: the groups that a unit may be, by the index of its event.
        packed: compress with gzip, which the trace viewers read.
    """
    made = list(events)
    for unit in units:
        for group in groups.get(unit.event, ())[:1]:
            for index in (
                unit.event,
                *(launched.event for launched in unit.launched),
            ):
                made[index] = _named(made[index], group)
    text = json.dumps(
        {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": sound(made)}
    )
    if packed:
        return gzip.compress(text.encode("utf-8"), mtime=0)
    return text.encode("utf-8")


def _named(event: Mapping[str, Any], group: Group) -> dict[str, Any]:
    profiled_steps = event.get("args")
    arguments = dict(profiled_steps) if isinstance(profiled_steps, dict) else {}
    arguments.update(
        kernel=event.get("name"),
        group=group.id,
        operators=list(group.ops),
        phase=group.phase,
    )
    if group.layers:
        arguments["layers"] = list(group.layers)
    return {
        **event,
        "name": f"{group.id}: {', '.join(runs_of(group.ops))}",
        "args": arguments,
    }


TRACE, PLACES = "trace.json.gz", "places.json.gz"
"""Names of the files that probe/step_profile.py writes in the folder of a profiled
run."""
EVALUATED = (
    f"{with_evaluator()} ran groups through its own evaluator (no LLVM), so their times do not measure"
    " kernels"
)


def trace_file(capture: Capture) -> Path | None:
    """The profiler's trace in a capture; None if there is none."""
    folder = None
    if capture.profile is not None:
        folder = capture.inner(capture.profile.capture)
    path = folder / TRACE if folder is not None else None
    if path is not None and path.is_file() and not path.is_symlink():
        return path
    return None


def with_profile(report: Report, capture: Capture) -> Report:
    """Return the report with the times of the profiled run; unchanged if there was
    none."""
    kept = capture.profile
    if kept is None:
        return report
    path = trace_file(capture)
    if kept.problem is not None or path is None:
        return replace(
            report,
            steps_note=kept.problem or "no profile: the profiler wrote no trace",
        )
    try:
        profiled_steps = capture.further(path.parent).records.profiled
        if profiled_steps is None:
            return replace(
                report,
                steps_note="no profile: the profiled run did not come to its end",
            )
        places = path.parent / PLACES
        known = read_origins(read_events(places)) if places.is_file() else {}
        if profiled_steps.unprofiled_ms is None:
            profiled_steps = replace(
                profiled_steps, unprofiled_ms=_timed_ms(report)
            )
        made = with_step_times(
            report, read_trace(read_events(path), known), profiled_steps
        )
    except (NoTrace, FusiondocError) as error:
        return replace(report, steps_note=f"no profile: {error}")
    if made.steps is not None and interpreted(report):
        return replace(
            made, steps_note="; ".join(filter(None, (made.steps_note, EVALUATED)))
        )
    return made


def _timed_ms(report: Report) -> float | None:
    """Milliseconds of a step of a script. Its profiled run measures no time without
    the profiler, so the timed run's is used."""
    for speed in report.speed:
        if speed.phase == STEP and speed.way != "eager":
            return speed.ms.median
    return None


def named_trace_of(capture: Capture, report: Report, packed: bool) -> bytes:
    """Return the trace of the profiled run, with the names of the report's groups.

    Raises:
        CannotRun: there is no such trace; the message says why.
    """
    path = trace_file(capture)
    if path is None:
        why = (
            report.steps_note
            or "no profile: the run under the profiler did not come to its end"
        )
        raise CannotRun(
            why,
            "Run it again with --time and without --trace-file to see the report alone.",
        )
    try:
        events = read_events(path)
        trace = read_trace(events)
    except NoTrace as error:
        raise CannotRun(str(error), "Run it again.") from None
    return named_trace(events, groups_of_units(report, trace), trace.units, packed)
