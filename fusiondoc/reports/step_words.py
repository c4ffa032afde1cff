"""Where the time of a step goes, in words that every report uses.

The plan of a report in words: what a change brings, and the last word on a run.
"""

from __future__ import annotations

from typing import Sequence

from fusiondoc.model.bench import Part
from fusiondoc.model.change_plan import PlannedChange
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Steps, Time
from fusiondoc.reports.printable import markdown, markdown_code, one_line
from fusiondoc.reports.source_code import near
from fusiondoc.reports.wording import count, covered, size, verdict

LEAST_SHARE = 0.005
"""A part below this share is left out of a sentence."""


def milliseconds(ms: float) -> str:
    """``33.1 ms``, ``1,125 ms``, ``4.2 us``."""
    if ms < 0.01:
        return f"{ms * 1e3:.2g} us"
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


def share(value: float) -> str:
    """``79 %``; what is more than nothing is not 0."""
    if 0 < value < LEAST_SHARE:
        return "< 1 %"
    return f"{value:.0%}".replace("%", " %")


def sentence(steps: Steps) -> str:
    """``33.1 ms a step: matmul 79 %, groups 8 %, device idle 4 %``."""
    return f"{milliseconds(steps.ms)} a step: {shares(steps.parts)}"


def shares(parts: Sequence[Part]) -> str:
    """``matmul 79 %, groups 8 %, device idle 4 %``."""
    return ", ".join(f"{one.what} {share(one.share)}" for one in parts if one.share >= LEAST_SHARE)


def could_save(steps: Steps) -> str | None:
    """What fusing the rest would save at most."""
    if steps.could_save_ms is None:
        return None
    part = steps.could_save_ms / steps.ms if steps.ms else 0.0
    return (
        f"fusing every operator that could fuse would save at most {milliseconds(steps.could_save_ms)}"
        f" a step ({share(part)})"
    )


def remarks(report: Report) -> list[str]:
    """What else is to be said of the steps of a report."""
    steps = report.steps
    said = []
    if steps is not None:
        said += [text for text in (could_save(steps), steps.hint) if text is not None]
        if steps.unmatched_ms and steps.unmatched_ms >= LEAST_SHARE * steps.ms:
            said.append(f"of these {milliseconds(steps.unmatched_ms)} could be tied to no row of this report")
    if report.steps_note is not None:
        said.append(report.steps_note)
    return said


def takes(time: Time | None) -> str | None:
    """``1.2 ms (4 %)``: of a row."""
    return None if time is None else f"{milliseconds(time.ms)} ({share(time.share)})"


TITLE = "Do this first"


def gain(change: PlannedChange) -> str:
    """``up to 0.42 ms of a step``, ``1.04 MB less to move in a run``; else how many operators; "" where
    nothing tells."""
    if change.gain_ms:
        return f"up to {milliseconds(change.gain_ms)} of a step"
    if change.gain_bytes and change.gain_bytes > 0:
        return f"{size(change.gain_bytes)} less to move in a run"
    return count(change.operators, "operator") if change.operators else ""


def place(change: PlannedChange) -> str:
    """``net.py:12`` and the number of other lines that change; "" where no line is known."""
    if change.where is None:
        return ""
    more = len(change.edits) - 1
    return near(change.where) + (f" and {count(more, 'more line')}" if more > 0 else "")


def before_command(change: PlannedChange) -> str | None:
    """What is to be known before its command is run; None where nothing is."""
    if change.command.startswith("fusiondoc compare ") and change.command.endswith(" new.log"):
        return "record a new log as new.log, then:"
    return "what tries it, and writes nothing:" if change.command.startswith("fusiondoc fix ") else None


def unlocks(change: PlannedChange) -> str:
    """``unlocks 8 groups of add+relu``; of an error what it is."""
    text = change.unlocks or ""
    return f"unlocks {text}" if change.operators and text[:1].isdigit() else text


def no_plan(report: Report) -> str:
    """What stands above the reason why there is nothing to change."""
    return report.plan_title or "Nothing to do"


ONLY_TRYING = "to try changes that no log can judge (writes nothing):"
"""What stands before that command."""


def last_word(report: Report) -> str:
    """The verdict, and what to do about it, on one line."""
    share = covered(report, "{:.0%}".format) if report.coverage.fraction is not None else None
    said = verdict(report) + (f" ({share})" if share is not None else "")
    if not report.plan:
        more = "; fusiondoc fix can try some" if report.plan_try is not None else ""
        return said + (f". {no_plan(report)}{more}" if report.plan_note else "")
    first = report.plan[0]
    where = f" ({place(first)})" if first.where is not None else ""
    return f"{said}. Do first: {first.change}{where}"


def plan_in_markdown(report: Report) -> list[str]:
    """The plan as lines of GitHub-flavoured Markdown: for comments and job summaries."""
    if not report.plan:
        lines = [f"**{no_plan(report)}**: {markdown(report.plan_note)}"] if report.plan_note else []
        if report.plan_try is not None:
            lines += ["", f"{ONLY_TRYING} {markdown_code(report.plan_try)}"]
        return lines
    lines = [f"**{TITLE}**", ""]
    for number, change in enumerate(report.plan, 1):
        where, brings = place(change), gain(change)
        head = f"{number}. **{markdown(change.change)}**"
        head += f" ({markdown_code(where)})" if where else ""
        lines.append(head + (f": {markdown(brings)}" if brings else ""))
        lines += [f"   {markdown(text)}" for text in (unlocks(change), change.note) if text]
        if change.before is not None and change.after is not None:
            rows = [f"- {row}" for row in change.before.split("\n")]
            rows += [f"+ {row}" for row in change.after.split("\n")]
            lines += ["   ```diff", *(f"   {_in_a_fence(row)}" for row in rows), "   ```"]
        if change.python is not None:
            lines += [
                "   ```python",
                *(f"   {_in_a_fence(row)}" for row in change.python.split("\n")),
                "   ```",
            ]
        first = before_command(change)
        lines.append(f"   {f'{first} ' if first else ''}{markdown_code(change.command)}")
    return lines


def _in_a_fence(row: str) -> str:
    """A line of code that ends no fence."""
    return one_line(row).replace("```", "`` `")
