"""FD1xx: nothing to fuse yet."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.rules.fd9_log import HOW_TO_LOG, PLANS
from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.model.report import Finding, Report

_PASSES = ("Before Fusion:", "Before TExprFuser:", "Before Compilation:", "After TExprFuser:")


def only_profiling(report: Report, context: Context) -> Iterable[Finding]:
    """FD101: executors profiled, none made a plan."""
    headers = context.observed.headers
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
    if without:
        yield finding(
            "FD102",
            "No fusion pass ran: gradients are recorded, and the graph holds no differentiable graph",
            source=without[0].user_source,
            evidence=without[0].evidence[:3],
            advice="For inference run it under torch.no_grad(). For training write the operators that have"
            " no gradient formula out, so that at least two others are adjacent: fusiondoc explain FD231",
        )
        return
    yield finding(
        "FD102",
        "Graphs were optimised but hold no fusion group, and the log shows no fusion pass",
        advice="Turn a fuser on (--fuser nnc or nvfuser; in a script: with torch.jit.fuser('fuser1')), "
        "and log"
        " its pass. " + HOW_TO_LOG,
    )


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
