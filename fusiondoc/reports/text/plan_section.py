"""The part of the terminal report that says what to do now."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.model.change_plan import PlannedChange
from fusiondoc.model.report import Report
from fusiondoc.reports.plan_words import TITLE, gain, place, unlocks
from fusiondoc.reports.text.layout_of_text import Unbroken, prose


def plan(report: Report) -> RenderableType | None:
    """At most three changes, best first; or why there is none. None for a saved report without either."""
    if not report.plan:
        if report.plan_note is None:
            return None
        return Lines(Text("Nothing to do", style="bold"), Padding(prose(report.plan_note), (0, 0, 0, 1)))
    parts: list[RenderableType] = [Text(TITLE, style="bold")]
    problem = next((f.message for f in report.findings if f.severity == "error"), None)
    commands = {change.command for change in report.plan}
    for number, change in enumerate(report.plan, 1):
        parts += _change(number, change, problem)
        if len(commands) > 1:
            parts.append(Unbroken(f"    $ {change.command}", "cyan"))
    if len(commands) == 1:
        parts.append(Unbroken(f" $ {report.plan[0].command}", "cyan"))
    return Lines(*parts)


def _change(number: int, change: PlannedChange, said: str | None) -> list[RenderableType]:
    """``said``: what the lines above have said already."""
    head = Text(f"{number}. ", style="bold")
    head.append_text(prose(change.change, "bold"))
    brings = gain(change)
    if brings:
        head.append(f"  {brings}", style="green")
    lines: list[RenderableType] = [Padding(head, (0, 0, 0, 1))]
    where = place(change)
    if change.unlocks and change.unlocks != said:
        lines.append(_indented(prose(unlocks(change))))
    if where:
        lines.append(_indented(Text(where, style="dim")))
    if change.before is not None and change.after is not None:
        lines += [Unbroken(f"    - {line}", "red") for line in change.before.split("\n")]
        lines += [Unbroken(f"    + {line}", "green") for line in change.after.split("\n")]
    if change.note:
        lines.append(_indented(prose(change.note, "dim")))
    return lines


def _indented(text: Text) -> RenderableType:
    return Padding(text, (0, 0, 0, 4))
