"""FD1xx: nothing to fuse yet; FD9xx: what the log itself lacks."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.captures.target import IN_PROCESS
from fusiondoc.diagnosis.rules.fd0_environment import WHAT_FUSION_NEEDS
from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.model.report import Finding, Report

HOW_TO_LOG = (
    "Let fusiondoc run it: fusiondoc diagnose FILE.py; or set PYTORCH_JIT_LOG_LEVEL as fusiondoc explain"
    " FD901 shows, run it at least three times in one process, and keep stdout and stderr."
)

_PLANS = ("Optimized Graph:", "Before Compilation:", "After TExprFuser:")
_OF_FUSION = {"Profiled Graph:", *_PLANS}
_PASSES = ("Before Fusion:", "Before TExprFuser:", "Before Compilation:", "After TExprFuser:")


def only_profiling(report: Report, context: Context) -> Iterable[Finding]:
    """FD101: executors profiled, none made a plan."""
    headers = context.observed.headers
    if context.cut_short or not headers.get("Profiled Graph:") or any(header in headers for header in _PLANS):
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
            " no gradient formula out, so that at least two others stand together: fusiondoc explain FD231",
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


def nothing_in_log(report: Report, context: Context) -> Iterable[Finding]:
    """FD901: no line that tells of fusion."""
    if (
        context.cut_short
        or context.observed.headers.keys() & _OF_FUSION
        or report.groups
        or report.kernels
        or report.fallbacks
        or report.unfused
    ):
        return
    if any(knob.effective == "off" and knob.name in WHAT_FUSION_NEEDS for knob in report.knobs):
        return  # FD104 names the cause
    if context.request is not None and context.request.target.kind == IN_PROCESS:
        yield finding(
            "FD901",
            "Nothing was compiled inside the block, so no fuser had anything to say",
            advice="A model that has run before keeps its plan: script it again inside the block, or put its"
            " first three calls there.",
        )
        return
    if context.request is not None:
        yield finding(
            "FD901",
            "The program ran nothing in TorchScript, so no fuser had anything to say",
            advice="Script or trace the model in it (torch.jit.script) and call it at least three times; or"
            " name the function and its inputs: fusiondoc diagnose FILE.py:NAME --input 'float32[8,128]'.",
        )
        return
    what = "The log has no line about fusion"
    levels = sorted(context.observed.levels)
    if not report.parse.lines:
        what = "The log is empty"
    elif levels:
        what = f"The log's JIT lines are only of {', '.join(levels[:4])} and name no execution plan"
    elif report.parse.recognised:
        what = "The log contains only dumps that name neither a group nor a kernel's launch"
    yield finding("FD901", what, advice=HOW_TO_LOG)


def cut_off(report: Report, context: Context) -> Iterable[Finding]:
    """FD902: graphs or kernels that are not printed to their end."""
    if report.parse.truncated:
        yield finding(
            "FD902",
            f"{report.parse.truncated} graphs or kernels are cut off; what they held is missing from "
            f"this report",
            advice="Keep the whole output of the run (both streams, from its start to its end).",
        )


def unknown_lines(report: Report, context: Context) -> Iterable[Finding]:
    """FD903: lines of torch's log that no parser knows."""
    if report.parse.unrecognised:
        first = report.parse.first_unrecognised
        yield finding(
            "FD903",
            f"{report.parse.unrecognised} log lines were not recognised"
            + (f", first {first[0].file}:{first[0].line}: {first[0].text[:80]}" if first else ""),
            advice="They may be of a torch version that fusiondoc does not know: please report them.",
        )


def out_of_order(report: Report, context: Context) -> Iterable[Finding]:
    """FD904: stdout and stderr are not in true order."""
    if context.observed.disordered:
        yield finding(
            "FD904",
            "stdout and stderr are out of order (or several processes share the log), so some kernels"
            " cannot be assigned to their groups",
            advice="Capture with fusiondoc diagnose, which keeps the order; with several processes, "
            "prefix each"
            " line with its rank (torchrun --tee 3, srun -l, mpirun --tag-output).",
        )


RULES = (
    only_profiling,
    no_fusion_pass,
    inner_plan_missing,
    nothing_in_log,
    cut_off,
    unknown_lines,
    out_of_order,
)
