"""What ``--time`` measured, or why there is no speed. (named as reports/text/speed.py: how that is shown)"""

from __future__ import annotations

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import TimedPasses
from fusiondoc.captures.request import IN_PROCESS
from fusiondoc.errors import FusiondocError
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Speed

INTERPRETED = (
    "no speed: NNC ran through its own evaluator here (this torch has no LLVM), hundreds of times slower than"
    " any kernel"
)
SCRIPT = "no speed: a script that runs as it is has no model of which an eager pass could be timed"
BLOCK = "no speed: a block of a program is not run again; fusiondoc.diagnose with time=True times a model"
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
    if capture.records.target.how == "script":
        return SCRIPT
    if capture.records.target.how == IN_PROCESS:
        return BLOCK
    return INTERPRETED if interpreted(report) else None


def speed_of(capture: Capture, report: Report) -> tuple[tuple[Speed, ...], str | None]:
    """What the timed run measured, and why there is nothing or what is to be known about it."""
    kept = capture.timing
    if kept is None:
        # Only where it can be had: a report of a failed run needs no advice on speed.
        why_not = why_not_timed(report, capture) if report.groups else None
        return (), why_not or (NOT_ASKED if report.groups else None)
    rows: list[Speed] = []
    eager = None
    for passes in _timed_passes(capture, kept.capture):
        speed = passes.as_speed()
        if speed is not None:
            rows.append(speed)
            eager = passes.eager
    note = kept.problem
    if note is None and rows:
        note = f"timed in a process without logs; eager is {eager}"
        if kept.dropped:
            note += f"; your {', '.join(kept.dropped)} was left out there"
    return tuple(rows), note


def _timed_passes(capture: Capture, folder: str | None) -> tuple[TimedPasses, ...]:
    if folder is None:
        return ()
    try:
        return Capture(capture.path / folder).records.speeds
    except FusiondocError:
        return ()
