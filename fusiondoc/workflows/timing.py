"""``--time``: the model once more in a child without logs and dumps, eager against fused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

import click

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import failure
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.errors import FusiondocError
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Speed, Spread
from fusiondoc.runner.launch import run
from fusiondoc.runner.progress import terminal_progress
from fusiondoc.workflows.tries import interpreted

FOLDER = "timing"
"""The capture of the timed run, inside the capture of the run it belongs to."""

INTERPRETED = (
    "no speed: NNC ran through its own evaluator here (this torch has no LLVM), hundreds of times slower than"
    " any kernel"
)
SCRIPT = "no speed: a script that runs as it is has no model of which an eager pass could be timed"
NOT_ASKED = "not timed: --time runs the model once more, without logs, eager against fused"


def run_timing(request: RunRequest, capture: Capture, report: Report) -> bool:
    """Run the timed child and keep what it measured in ``capture``; False if the user interrupted."""
    why_not = _why_not(report, capture)
    if why_not is not None:
        click.echo(f"note: --time: {why_not}", err=True)
        capture.add("timing.json", {"capture": None, "problem": why_not, "dropped": []})
        return True
    timed = replace(request, timing=True, verify=False, dumps=(), command=())
    click.echo("timing without logs, eager against fused", err=True)
    with terminal_progress(f"{request.target.label} timed") as progress:
        try:
            done = run(timed, Within(capture.path, FOLDER), progress)
            failed = failure(done)
        except FusiondocError as error:
            capture.add("timing.json", {"capture": None, "problem": _problem(error), "dropped": []})
            return True
    dropped = done.request.get("dropped") or []
    if dropped:
        click.echo(f"note: {', '.join(dropped)} left out of the timed run", err=True)
    capture.add(
        "timing.json",
        {
            "capture": FOLDER,
            "problem": None if failed is None else _problem(failed),
            "dropped": dropped,
        },
    )
    return not done.result.get("interrupted")


def _why_not(report: Report, capture: Capture) -> str | None:
    if capture.record("target").get("how") == "script":
        return SCRIPT
    return INTERPRETED if interpreted(report) else None


def _problem(error: FusiondocError) -> str:
    lines = [line.strip() for line in error.message.strip().split("\n") if line.strip()]
    return "no speed: the run without logs failed: " + (lines[-1] if lines else type(error).__name__)[:200]


def speed_of(capture: Capture, report: Report) -> tuple[tuple[Speed, ...], str | None]:
    """What the timed run measured, and why there is nothing or what is to be known about it."""
    kept = capture.timing
    if kept is None:
        # Only where it can be had: a report of a failed run needs no advice on speed.
        why_not = _why_not(report, capture) if report.groups else None
        return (), why_not or (NOT_ASKED if report.groups else None)
    rows: list[Speed] = []
    eager = None
    if kept.get("capture"):
        for record in _records(capture, str(kept["capture"])):
            row = _row(record)
            if row is not None:
                rows.append(row)
                eager = record.get("eager")
    note = kept.get("problem")
    if note is None and rows:
        dropped = [str(name) for name in kept.get("dropped") or ()]
        note = f"timed in a process without logs; eager is {eager}"
        if dropped:
            note += f"; your {', '.join(dropped)} was left out there"
    return tuple(rows), None if note is None else str(note)


def _records(capture: Capture, folder: str) -> list[Mapping[str, Any]]:
    try:
        inner = Capture(capture.path / folder)
    except FusiondocError:
        return []
    return [record for record in inner.records() if record["record"] == "speed"]


def _row(record: Mapping[str, Any]) -> Speed | None:
    """None for a record that is damaged."""
    try:
        low, middle, high = (float(one) for one in record["ms"])
        warm_up = tuple(float(one) for one in record["warmup_ms"])
        return Speed(
            way=str(record["way"]),
            phase=str(record["phase"]),
            inputs=int(record["inputs"]),
            ms=Spread(low, middle, high),
            passes=int(record["passes"]),
            first_ms=warm_up[0] if warm_up else None,
            memory_bytes=record.get("memory_bytes"),
            warmup_ms=warm_up,
        )
    except (KeyError, TypeError, ValueError):
        return None
