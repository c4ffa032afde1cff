"""What to do now, at the top of the page."""

from __future__ import annotations

from dataclasses import dataclass

from fusiondoc.reports.html.page_context import Context
from fusiondoc.reports.plan_words import gain, place, unlocks


@dataclass(frozen=True)
class Step:
    """A change of the plan; ``diff``: its lines, with - and +."""

    change: str
    gain: str
    where: str
    unlocks: str
    diff: str | None
    note: str | None
    command: str


@dataclass(frozen=True)
class Plan:
    """At most three steps, best first; without any ``note`` says why."""

    note: str | None
    steps: tuple[Step, ...]


def plan_view(context: Context) -> Plan | None:
    """None for a saved report that has none."""
    report = context.report
    if not report.plan and report.plan_note is None:
        return None
    note = None if report.plan else f"Nothing to do. {report.plan_note}."
    steps = tuple(
        Step(
            one.change,
            gain(one),
            place(one),
            unlocks(one),
            _diff(one.before, one.after),
            one.note,
            one.command,
        )
        for one in report.plan
    )
    return Plan(note, steps)


def _diff(before: str | None, after: str | None) -> str | None:
    if before is None or after is None:
        return None
    rows = [f"- {row}" for row in before.split("\n")]
    return "\n".join([*rows, *(f"+ {row}" for row in after.split("\n"))])
