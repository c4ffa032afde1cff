"""What the timed run of ``--time`` measured, or why there is no speed."""

from __future__ import annotations

from typing import Any, Mapping

from fusiondoc.captures.capture import Capture
from fusiondoc.errors import FusiondocError
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Speed, Spread

INTERPRETED = (
    "no speed: NNC ran through its own evaluator here (this torch has no LLVM), hundreds of times slower than"
    " any kernel"
)
SCRIPT = "no speed: a script that runs as it is has no model of which an eager pass could be timed"
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
    if capture.record("target").get("how") == "script":
        return SCRIPT
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
