"""The plan of a report as a section: at most three changes, best first; or why
there is none."""

from __future__ import annotations

from fusiondoc.model import count
from fusiondoc.model.change_plan import PlannedChange
from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import (
    Block,
    ChangeList,
    Command,
    ListedChange,
    Section,
    Sentences,
)
from fusiondoc.rendering.values import Tone
from fusiondoc.views.plan_words import (
    ONLY_TRYING,
    TITLE,
    before_command,
    gain,
    no_plan,
    position,
    proof,
    unlocks,
)

MOST_STEPS = 3
"""Most steps of a plan."""


def plan(report: Report) -> Section:
    """Section of the plan; empty for a saved report that has neither a plan nor a
    reason why there is none."""
    if report.plan:
        shared = _shared_command(report)
        steps = ChangeList(
            tuple(
                _step(change, without_command=shared is not None)
                for change in report.plan
            )
        )
        return Section(
            "plan",
            TITLE,
            blocks=(steps, *((shared,) if shared is not None else ())),
        )
    blocks: list[Block] = [
        Sentences((report.plan_note,) if report.plan_note is not None else ())
    ]
    if report.plan_note is not None and report.plan_try is not None:
        blocks.append(Command(report.plan_try, ONLY_TRYING))
    return Section("plan", no_plan(report), link="What to do", blocks=tuple(blocks))


def plan_on_a_terminal(
    report: Report,
    whole: int = MOST_STEPS,
    shown: int = MOST_STEPS,
    others: str = "below",
) -> Section:
    """Section of the plan without the error of the run, which the lines above it
    have; a command that all changes share is written once, at the end.

    Args: whole: number of steps with their lines and conditions; the others have
        only the change and its position. shown: number of steps; the rest are only
        counted. others: where a reader finds the rest.
    """
    section = plan(report)
    if not report.plan:
        return section
    rows = _steps_on_a_terminal(report)
    headlines = []
    for row in rows[whole:shown]:
        headlines.append(ListedChange(row.text, row.gain, row.position))
    blocks: list[Block] = [ChangeList((*rows[: min(whole, shown)], *headlines))]
    further = len(rows) - shown
    if further > 0:
        blocks.append(
            Sentences((f"{count(further, 'more step')} {others}",), Tone.DIM)
        )
    shared = _shared_command(report)
    if shared is not None:
        blocks.append(shared)
    return Section("plan", TITLE, blocks=tuple(blocks))


def further_steps(report: Report, whole: int) -> Section:
    """Section of the steps whose lines the first screen of a terminal leaves
    out."""
    rows = _steps_on_a_terminal(report)[whole:]
    blocks = (ChangeList(tuple(rows), first=whole + 1),) if rows else ()
    return Section("further-steps", "Then do this", blocks=blocks)


def _steps_on_a_terminal(report: Report) -> list[ListedChange]:
    problem = None
    for f in report.findings:
        if f.severity == "error":
            problem = f.message
            break
    shared = _shared_command(report)
    steps = []
    for change in report.plan:
        steps.append(_step(change, change.unlocks == problem, shared is not None))
    return steps


def _shared_command(report: Report) -> Command | None:
    """Return the command that tries each of the changes; None if they have
    several."""
    if len({change.command for change in report.plan}) != 1:
        return None
    first = report.plan[0]
    return Command(first.command, before_command(first) or "")


def _step(
    change: PlannedChange, is_known: bool = False, without_command: bool = False
) -> ListedChange:
    diff = ""
    if change.before is not None and change.after is not None:
        rows = [f"- {row}" for row in change.before.split("\n")]
        diff = "\n".join(rows + [f"+ {row}" for row in change.after.split("\n")])
    command = None
    if not without_command:
        command = Command(change.command, before_command(change) or "")
    return ListedChange(
        text=change.change,
        gain=gain(change),
        position=position(change),
        unlocks=unlocks(change) if not is_known else "",
        diff=diff,
        note=change.note or "",
        proof=proof(change),
        code=change.python or "",
        command=command,
    )
