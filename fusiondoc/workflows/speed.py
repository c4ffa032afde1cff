"""What ``--time`` measured, or why there is no speed. (named as reports/text/speed.py: how that is shown)"""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import TimedPasses
from fusiondoc.captures.request import IN_PROCESS
from fusiondoc.captures.script_records import SCRIPT
from fusiondoc.errors import FusiondocError
from fusiondoc.model.bench import EAGER, Ratio
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Speed, Spread
from fusiondoc.workflows.bench_statistics import LEAST_ROUNDS, of_processes

INTERPRETED = (
    "no speed: NNC ran through its own evaluator here (this torch has no LLVM), hundreds of times slower than"
    " any kernel"
)
NOT_REACHED = "no speed: the program never reached TorchScript, so there is nothing to hold against eager"
BLOCK = "no speed: a block of a program is not run again; fusiondoc.diagnose with time=True times a model"
NOT_ASKED_SCRIPT = "not timed: --time runs the script again, without logs, with the fuser and without"
NOT_ASKED = "not timed: --time runs the model once more, without logs, eager against fused"


def interpreted(report: Report) -> bool:
    """Whether NNC ran groups through its own evaluator, some hundred times slower than any kernel: on the CPU
    where torch is built without LLVM. Its times say nothing about fusion."""
    return report.environment.get("llvm") == "False" and any(
        group.kind == "TensorExprGroup" and any("device=cpu" in text for text in group.inputs)
        for group in report.groups
    )


def why_not_timed(report: Report, capture: Capture) -> str | None:
    """Why an eager pass beside a fused one would say nothing; None where it would."""
    if capture.records.target.how == SCRIPT and report.script is not None and not report.script.reached:
        return NOT_REACHED
    if capture.records.target.how == IN_PROCESS:
        return BLOCK
    return INTERPRETED if interpreted(report) else None


def speed_of(capture: Capture, report: Report) -> tuple[tuple[Speed, ...], str | None]:
    """What the timed run measured, and why there is nothing or what is to be known about it."""
    kept = capture.timing
    if kept is None:
        # Only where it can be had: a report of a failed run needs no advice on speed.
        why_not = why_not_timed(report, capture) if report.groups else None
        script = capture.records.target.how == SCRIPT
        return (), why_not or ((NOT_ASKED_SCRIPT if script else NOT_ASKED) if report.groups else None)
    if kept.speeds:
        return kept.speeds, kept.note
    rows: list[Speed] = []
    eager = None
    processes = [_timed_passes(capture, name) for name in (kept.capture, kept.again) if name is not None]
    for passes in processes[0] if processes else ():
        same = _same_in(processes, passes, passes.way)
        speed = _together(same)
        if speed is not None:
            # What has no group is not fused, whatever it was meant to be.
            way = passes.way if report.groups or passes.way == EAGER else "scripted"
            of_eager = _same_in(processes, passes, EAGER) if passes.way != EAGER else []
            rows.append(replace(speed, way=way, ratio=_against_eager(same, of_eager)))
            eager = passes.eager
    note = kept.problem
    if note is None and rows:
        times = "two processes" if len([one for one in processes if one]) > 1 else "a process"
        note = f"timed in {times} without logs; eager is {eager}"
        if kept.dropped:
            note += f"; your {', '.join(kept.dropped)} was left out there"
    return tuple(rows), note


def _same_in(processes: Sequence[Sequence[TimedPasses]], passes: TimedPasses, way: str) -> list[TimedPasses]:
    """That way with the same inputs in the same phase, in each process that has it."""
    wanted = (way, passes.phase, passes.inputs)
    found = (
        next((one for one in timed if (one.way, one.phase, one.inputs) == wanted), None)
        for timed in processes
    )
    return [one for one in found if one is not None]


def _together(same: Sequence[TimedPasses]) -> Speed | None:
    """A row over the rounds of all processes; what the first of them tells is of the first."""
    speed = same[0].as_speed() if same else None
    rounds = sorted(value for one in same for value in one.rounds)
    if speed is None or len(same) == 1 or not rounds:
        return speed
    memory = [one.memory_bytes for one in same if one.memory_bytes is not None]
    return replace(
        speed,
        ms=Spread(rounds[0], rounds[len(rounds) // 2], rounds[-1]),
        passes=sum(one.passes for one in same),
        memory_bytes=max(memory, default=None),
    )


def _against_eager(same: Sequence[TimedPasses], eager: Sequence[TimedPasses]) -> Ratio | None:
    """None for eager, and with too few rounds for an interval."""
    pairs = sum(min(len(one.rounds), len(other.rounds)) for one, other in zip(eager, same))
    if pairs < LEAST_ROUNDS or not all(value > 0 for one in (*eager, *same) for value in one.rounds):
        return None
    return of_processes([one.rounds for one in eager], [one.rounds for one in same])


def _timed_passes(capture: Capture, name: str | None) -> tuple[TimedPasses, ...]:
    folder = capture.inner(name)
    if folder is None:
        return ()
    try:
        return Capture(folder).records.speeds
    except FusiondocError:
        return ()
