"""FD1xx: nothing to fuse yet."""

from __future__ import annotations

from collections import Counter
from typing import Iterable

from fusiondoc.diagnosis.reasons_of_gradients import NO_FORMULA, RECORDED
from fusiondoc.diagnosis.rules.fd1_aot import compiled_each_time
from fusiondoc.diagnosis.rules.fd9_log import HOW_TO_LOG, PLANS
from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.diagnosis.surroundings import is_in_place
from fusiondoc.model.report import Finding, Report

_PASSES = ("Before Fusion:", "Before TExprFuser:", "Before Compilation:", "After TExprFuser:")


def only_profiling(report: Report, context: Context) -> Iterable[Finding]:
    """FD101: executors profiled, none made a plan."""
    headers = context.observed.headers
    if any(map(compiled_each_time, report.aot)):
        return  # more runs would change nothing
    if context.cut_short or not headers.get("Profiled Graph:") or any(header in headers for header in PLANS):
        return
    yield finding(
        "FD101",
        f"Only profiling happened: graphs profiled: {headers['Profiled Graph:']}, optimised: none",
        advice="Run the model at least three times with inputs of the same shape (backward needs one "
        "run more):"
        " --runs 5.",
    )


def no_fusion_pass(report: Report, context: Context) -> Iterable[Finding]:
    """FD102: plans without a group, and no fusion pass was logged."""
    headers = context.observed.headers
    if report.groups or not headers.get("Optimized Graph:") or any(header in headers for header in _PASSES):
        return
    if report.fuser.requested == "none":
        return
    without = [row for row in report.unfused if row.reason.code == "FD231"]
    ends = _ends(report)
    if any(row.reason.text.startswith(RECORDED) for row in without):
        yield finding(
            "FD102",
            "No fusion pass ran: gradients are recorded, and torch found no differentiable graph of two"
            " operators to hand to a fuser" + (f": {ends}" if ends else ""),
            source=without[0].user_source,
            evidence=without[0].evidence[:3],
            advice=f"{_OUT_OF_PLACE if 'in place' in ends else _WITH_FORMULAS} For inference run it under"
            " torch.no_grad().",
        )
        return
    asked = report.fuser.requested
    causes = []
    if without:
        causes.append(
            "gradients were recorded and no differentiable graph of two operators exists"
            + (f" ({ends}): {_OUT_OF_PLACE[0].lower()}{_OUT_OF_PLACE[1:-1]}" if ends else "")
        )
    if asked is None or asked == "auto":
        causes.append("no fuser was on: --fuser nnc or nvfuser; in a script: with torch.jit.fuser('fuser1')")
    causes.append(f"the pass was not logged: {HOW_TO_LOG[0].lower()}{HOW_TO_LOG[1:]}")
    yield finding(
        "FD102",
        "Graphs were optimised but hold no fusion group, and the log shows no fusion pass",
        advice="Possible causes, likeliest first: "
        + "; ".join(f"{nth}) {cause}" for nth, cause in enumerate(causes, 1)),
    )


_OUT_OF_PLACE = (
    "Write out of place what changes its input (inplace=False, out + x for out += x), so that two operators"
    " with gradient formulas are adjacent."
)


_WITH_FORMULAS = (
    "Write the operators that have no gradient formula with others that have one: fusiondoc explain FD231."
)


def _ends(report: Report) -> str:
    """What keeps operators with gradient formulas apart: what changes its input, then what has no formula."""
    in_place, others = Counter[str](), Counter[str]()
    for row in report.unfused:
        if is_in_place(row.op) and row.reason.code in ("FD230", "FD231"):
            in_place[row.op] += row.count
        elif row.reason.code == "FD231" and row.reason.text.endswith(
            (f"and it {NO_FORMULA}", f"because it {NO_FORMULA}")
        ):
            others[row.op] += row.count
    said = [
        f"{', '.join(f'{op} ({count} times)' for op, count in counted.most_common(3))} {what}"
        for counted, what in ((in_place, "change their input in place"), (others, "have no gradient formula"))
        if counted
    ]
    return "; ".join(said)


def inner_plan_missing(report: Report, context: Context) -> Iterable[Finding]:
    """FD103: a differentiable graph whose own executor made no plan."""
    rows = [row for row in report.unfused if row.reason.code == "FD103"]
    if not rows:
        return
    count = sum(row.count for row in rows)
    yield finding(
        "FD103",
        f"{count} operators are in a differentiable graph that was not optimised in this log",
        source=rows[0].user_source,
        evidence=rows[0].evidence[:3],
        advice="Its own executor profiles once more: run the model once or twice more (--runs).",
    )


RULES = (only_profiling, no_fusion_pass, inner_plan_missing)
