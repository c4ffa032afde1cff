"""The plan of a report in words: what a change brings and unlocks, where it is; and
the last line."""

from __future__ import annotations

from fusiondoc.model import count
from fusiondoc.model.change_plan import NEW_FOLDER, NEW_LOG, PlannedChange
from fusiondoc.model.report import Report
from fusiondoc.rendering.units import milliseconds, short_percent, size
from fusiondoc.views.formatting import NO_DIFFERENCE, covered, listed_lines, verdict

TITLE = "Do this first"


def gain(change: PlannedChange) -> str:
    """``up to 0.42 ms of a step``, ``1.04 MB less memory traffic per run``; else
    how many operators, if what it unlocks does not begin so; "" where nothing
    tells."""
    if change.gain_ms:
        return f"up to {milliseconds(change.gain_ms)} of a step"
    if change.gain_bytes and change.gain_bytes > 0:
        return f"{size(change.gain_bytes)} less memory traffic per run"
    number = count(change.operators, "operator") if change.operators else ""
    return "" if (change.unlocks or "").startswith(f"{number} ") else number


def position(change: PlannedChange) -> str:
    """``net.py:12, 14 and 3 more lines``: all lines that change; "" where none is
    known."""
    return (
        listed_lines((change.where, *change.also_at))
        if change.where is not None
        else ""
    )


def before_command(change: PlannedChange) -> str | None:
    """What is to be known before its command is run; None where nothing is."""
    if change.command.startswith(("fusiondoc compare ", "fusiondoc parse ")):
        words = change.command.split(" ")
        if words[-1] == NEW_LOG:
            return f"record a new log as {NEW_LOG}, then:"
        if words[-1] == NEW_FOLDER:
            if words[2:-1] == ["old"]:
                return f"put these logs into a folder old, those of a new run into {NEW_FOLDER}, then:"
            return f"record the logs of a new run in a folder {NEW_FOLDER}, then:"
    return (
        "Try it without changing files:"
        if change.command.startswith("fusiondoc fix ")
        else None
    )


def unlocks(change: PlannedChange) -> str:
    """``unlocks 8 groups of add+relu``; of an error what it is."""
    text = change.unlocks or ""
    return f"unlocks {text}" if change.operators and text[:1].isdigit() else text


def proof(change: PlannedChange) -> str:
    """``proved by fusiondoc fix: 0 -> 4 groups, 0 -> 10 operators fused, the same
    results``; "" of a change that was not run."""
    ran = change.proof
    if ran is None:
        return ""
    parts = [
        f"{ran.groups_before:,} -> {count(ran.groups, 'group')}",
        f"{ran.ops_fused_before:,} -> {count(ran.ops_fused, 'operator')} fused",
    ]
    if ran.same_results:
        parts.append("the same results")
    if ran.speed is not None:
        parts.append(
            f"{ran.speed.value:.2f} times as fast"
            if ran.speed.differs
            else NO_DIFFERENCE
        )
    return f"proved by {ran.by}: {', '.join(parts)}"


def no_plan(report: Report) -> str:
    """What stands above the reason why there is nothing to change."""
    return report.plan_title or "Nothing to do"


ONLY_TRYING = "to test changes that the log cannot predict (changes no files):"
"""What stands before that command."""


def last_word(report: Report) -> str:
    """The verdict, and what to do about it, on one line."""
    known = report.coverage.fraction is not None
    share = covered(report, short_percent, any_fuser=False) if known else None
    text = verdict(report) + (f" ({share})" if share is not None else "")
    if not report.plan:
        more = "; fusiondoc fix can try some" if report.plan_try is not None else ""
        return text + (f". {no_plan(report)}{more}" if report.plan_note else "")
    first = report.plan[0]
    where = f" ({position(first)})" if first.where is not None else ""
    return f"{text}. Do first: {first.change}{where}"
