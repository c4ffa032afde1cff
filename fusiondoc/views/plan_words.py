"""The plan of a report in words: the gain of a change, what it unlocks, its
position; and the last line of a report."""

from __future__ import annotations

from fusiondoc.model import count
from fusiondoc.model.change_plan import NEW_FOLDER, NEW_LOG, PlannedChange
from fusiondoc.model.report import Report
from fusiondoc.rendering.units import milliseconds, short_percent, size
from fusiondoc.views.formatting import NO_DIFFERENCE, covered, listed_lines, verdict

TITLE = "Do this first"


def gain(change: PlannedChange) -> str:
    """Return ``up to 0.42 ms of a step`` or ``1.04 MB less memory traffic per
    run``; else the number of operators, unless the text of ``unlocks`` begins with
    it; "" if nothing is known."""
    if change.gain_ms:
        return f"up to {milliseconds(change.gain_ms)} of a step"
    if change.gain_bytes and change.gain_bytes > 0:
        return f"{size(change.gain_bytes)} less memory traffic per run"
    number = count(change.operators, "operator") if change.operators else ""
    if (change.unlocks or "").startswith(f"{number} "):
        return ""
    return number


def position(change: PlannedChange) -> str:
    """Return ``net.py:12, 14 and 3 more lines``: all lines that change; "" if none
    is known."""
    if change.where is None:
        return ""
    return listed_lines((change.where, *change.also_at))


def before_command(change: PlannedChange) -> str | None:
    """Return the instruction that precedes its command; None if none is needed."""
    if change.command.startswith(("fusiondoc compare ", "fusiondoc parse ")):
        words = change.command.split(" ")
        if words[-1] == NEW_LOG:
            return f"record a new log as {NEW_LOG}, then:"
        if words[-1] == NEW_FOLDER:
            if words[2:-1] == ["old"]:
                return f"put these logs into a folder old, those of a new run into {NEW_FOLDER}, then:"
            return f"record the logs of a new run in a folder {NEW_FOLDER}, then:"
    if change.command.startswith("fusiondoc fix "):
        return "Try it without changing files:"
    return None


def unlocks(change: PlannedChange) -> str:
    """Return ``unlocks 8 groups of add+relu``; for an error its text."""
    text = change.unlocks or ""
    if change.operators and text[:1].isdigit():
        return f"unlocks {text}"
    return text


def proof(change: PlannedChange) -> str:
    """Return ``proved by fusiondoc fix: 0 -> 4 groups, 0 -> 10 operators fused, the
    same results``; "" for a change that was not run."""
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
        if ran.speed.differs:
            parts.append(f"{ran.speed.value:.2f} times as fast")
        else:
            parts.append(NO_DIFFERENCE)
    return f"proved by {ran.by}: {', '.join(parts)}"


def no_plan(report: Report) -> str:
    """Return the heading above the reason why there is nothing to change."""
    return report.plan_title or "Nothing to do"


ONLY_TRYING = "to test changes that the log cannot predict (changes no files):"
"""The text before that command."""


def last_word(report: Report) -> str:
    """Return the verdict, and the first change to make, on one line."""
    known = report.coverage.fraction is not None
    share = covered(report, short_percent, any_fuser=False) if known else None
    text = verdict(report) + (f" ({share})" if share is not None else "")
    if not report.plan:
        more = "; fusiondoc fix can try some" if report.plan_try is not None else ""
        return text + (f". {no_plan(report)}{more}" if report.plan_note else "")
    first = report.plan[0]
    where = f" ({position(first)})" if first.where is not None else ""
    return f"{text}. Do first: {first.change}{where}"
