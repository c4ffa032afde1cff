"""The plan of a report as a section: at most three changes, best first; or why there is none."""

from __future__ import annotations

from fusiondoc.model.change_plan import PlannedChange
from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import Block, Command, Section, Sentences, Step, Steps
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


def plan(report: Report) -> Section:
    """Empty for a saved report that has neither a plan nor a reason why there is none."""
    if report.plan:
        return Section("plan", TITLE, blocks=(Steps(tuple(map(_step, report.plan))),))
    blocks: list[Block] = [Sentences((report.plan_note,) if report.plan_note is not None else ())]
    if report.plan_note is not None and report.plan_try is not None:
        blocks.append(Command(report.plan_try, ONLY_TRYING))
    return Section("plan", no_plan(report), link="What to do", blocks=tuple(blocks))


def plan_on_a_terminal(report: Report) -> Section:
    """The same without the error of the run, which the lines above it have; a command that all changes share
    is written once, at the end."""
    section = plan(report)
    problem = next((f.message for f in report.findings if f.severity == "error"), None)
    last, shared = len(report.plan), len({change.command for change in report.plan}) == 1
    steps = []
    for number, change in enumerate(report.plan, 1):
        without_command = shared and number != last
        steps.append(_step(change, change.unlocks == problem, without_command))
    return section if not steps else Section("plan", TITLE, blocks=(Steps(tuple(steps)),))


def _step(change: PlannedChange, is_known: bool = False, without_command: bool = False) -> Step:
    diff = ""
    if change.before is not None and change.after is not None:
        rows = [f"- {row}" for row in change.before.split("\n")]
        diff = "\n".join(rows + [f"+ {row}" for row in change.after.split("\n")])
    return Step(
        text=change.change,
        gain=gain(change),
        position=position(change),
        unlocks=unlocks(change) if not is_known else "",
        diff=diff,
        note=change.note or "",
        proof=proof(change),
        code=change.python or "",
        command=Command(change.command, before_command(change) or "") if not without_command else None,
    )
