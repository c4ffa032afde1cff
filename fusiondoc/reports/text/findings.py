"""The sections of the terminal report on fallbacks, findings and the log itself.

The part of the terminal report that says what to do now.
"""

from __future__ import annotations

import shlex

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.change_plan import PlannedChange
from fusiondoc.model.report import Finding, Report
from fusiondoc.reports.run_words import (
    ONLY_TRYING,
    TITLE,
    before_command,
    gain,
    no_plan,
    place,
    takes,
    unlocks,
)
from fusiondoc.reports.source_code import near, with_near_places
from fusiondoc.reports.text.layout_of_text import MOST_ROWS, STYLES, Indented, Unbroken, fields, prose
from fusiondoc.reports.wording import DOING, count


def fallbacks(report: Report) -> RenderableType | None:
    """What ran unfused although it had been fused; None without any."""
    if not report.fallbacks:
        return None
    table = fields()
    for fallback in report.fallbacks:
        often = f"{'' if fallback.count_exact else 'at least '}{count(fallback.count, 'time')}"
        lines = ", ".join(f"{e.file}:{e.line}" for e in list(fallback.evidence)[:2])
        doing = DOING.get(fallback.stage, fallback.stage)
        table.add_row(fallback.group or "group unknown", f"while {doing}, {often} ({lines})")
    return table


def findings(report: Report, every: bool = False) -> RenderableType | None:
    """Every finding with its advice; those that say no more than the section of their operators, or the first
    lines, are not repeated."""
    shown = [f for f in report.findings if not f.in_header and (every or not f.in_rows)]
    rest = [f for f in report.findings if f.in_rows and not every]
    if not shown and not rest:
        return Text("none")
    worst = next((f for f in shown if f.severity == "error"), None)
    if worst is not None and not (worst.advice or worst.source or every):
        shown.remove(worst)  # the first screen has all of it
        if not shown and not rest:
            return None
    parts: list[RenderableType] = []
    for finding in shown if every else shown[:MOST_ROWS]:
        parts.append(_finding(finding))
    if rest:
        codes = sorted({f.code for f in rest})
        parts.append(
            prose(
                f"{count(len(rest), 'finding')} on operators above ({', '.join(codes)}): fusiondoc "
                f"explain {codes[0]}"
            )
        )
    return Lines(*parts)


def _finding(finding: Finding) -> RenderableType:
    head = Text(f"{finding.severity} {finding.code}", style=STYLES.get(finding.severity, ""))
    message = finding.message
    if finding.source:
        message = message.replace(finding.source, near(finding.source))
    message = with_near_places(message)
    head.append(f"  {message}", style="default")
    if finding.time is not None:
        head.append(f", {takes(finding.time)} of a step", style="default")
    lines: list[RenderableType] = [head]
    if finding.source:
        lines.append(Indented(Text(near(finding.source), style="dim"), 4))
    if finding.advice:
        lines.append(Indented(prose("→ " + finding.advice), 4))
    return Lines(*lines)


def log(report: Report) -> RenderableType:
    """How the log was read, and where it is kept."""
    stats = report.parse
    if not stats.lines:
        return Text("empty")
    share = stats.recognised / stats.lines
    text = (
        f"{count(stats.lines, 'line')}: {share:.1%} recognised, {stats.user_output:,} of the program's own,"
        f" {stats.unrecognised:,} unknown"
    )
    if stats.truncated:
        text += f", {stats.truncated} blocks cut off"
    lines: list[RenderableType] = [Text(text)]
    for line in stats.first_unrecognised[:3]:
        lines.append(Text(f"  {line.file}:{line.line}: {line.text[:90]}", style="dim"))
    timing = report.timing
    if timing.get("child") is not None:
        overhead = timing.get("overhead")
        took = f"{timing['child']:.2f} s in the model's process"
        lines.append(Text(took + (f", {overhead:.2f} s added by fusiondoc" if overhead is not None else "")))
    if report.target.capture:
        folder = report.target.capture
        lines += [Text("kept; the report again:"), Unbroken(shlex.join(["fusiondoc", "parse", folder]))]
    return Lines(*lines)


def plan(report: Report) -> RenderableType | None:
    """At most three changes, best first; or why there is none. None for a saved report without either."""
    if not report.plan:
        if report.plan_note is None:
            return None
        lines: list[RenderableType] = [Text(no_plan(report), style="bold")]
        lines.append(Padding(prose(report.plan_note), (0, 0, 0, 1)))
        if report.plan_try is not None:
            lines.append(Padding(Text(ONLY_TRYING, style="dim"), (0, 0, 0, 1)))
            lines.append(Unbroken(f" $ {report.plan_try}", "cyan"))
        return Lines(*lines)
    parts: list[RenderableType] = [Text(TITLE, style="bold")]
    problem = next((f.message for f in report.findings if f.severity == "error"), None)
    commands = {change.command for change in report.plan}
    for number, change in enumerate(report.plan, 1):
        parts += _change(number, change, problem)
        if len(commands) > 1 or number == len(report.plan):
            first = before_command(change)
            if first is not None:
                parts.append(_indented(Text(first, style="dim")))
            parts.append(Unbroken(f"    $ {change.command}", "cyan"))
    return Lines(*parts)


def _change(number: int, change: PlannedChange, said: str | None) -> list[RenderableType]:
    """``said``: what the lines above have said already."""
    said_first = prose(change.change, "bold")
    brings = gain(change)
    if brings:
        said_first.append(": ").append(brings, style="green")
    head = Table.grid(pad_edge=False)
    head.add_column(no_wrap=True, width=4)
    head.add_column(overflow="fold")
    head.add_row(Text(f" {number}. ", style="bold"), said_first)
    lines: list[RenderableType] = [head]
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
    if change.python:
        lines += [Unbroken(f"    {line}", "green") for line in change.python.split("\n")]
    return lines


def _indented(text: Text) -> RenderableType:
    return Padding(text, (0, 0, 0, 4))
