"""What the findings of a whole run say to do: what comes before any change of the program, and what is left
where none helps."""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from fusiondoc.diagnosis.change_commands import can_run_again, compare_logs, run_again, to_keep
from fusiondoc.diagnosis.rules.rule import Context
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.report import Finding, Report

_KINDS = {
    "FD101": ChangeKind.RUNS,
    "FD102": ChangeKind.LOG,
    "FD103": ChangeKind.RUNS,
    "FD104": ChangeKind.FUSER,
    "FD901": ChangeKind.LOG,
    "FD305": ChangeKind.STATIC_SHAPES,
    "FD407": ChangeKind.STATIC_SHAPES,
}


def blocking_steps(report: Report, context: Context) -> Iterable[PlannedChange]:
    """Errors, and what kept everything from being fused: the first of each code."""
    seen: set[str] = set()
    for finding in report.findings:
        early = finding.code in ("FD101", "FD102", "FD103", "FD104", "FD901") and not report.groups
        failed = finding.code == "FD905"
        if finding.code in seen or finding.keeps_out or (finding.advice is None and not failed):
            continue
        if finding.severity == "error" or (early and finding.severity == "warning"):
            seen.add(finding.code)
            yield _of_finding(finding, report, context)
    switched_off = [row for row in report.unfused if row.reason.code == "FD104"]
    if switched_off and "FD104" not in seen:
        yield PlannedChange(
            "Choose a fuser: every fuser is off",
            ChangeKind.FUSER,
            None,
            None,
            None,
            f"{sum(row.count for row in switched_off)} operators that a fuser takes",
            None,
            None,
            command_of(report, context, ("--fuser", "auto")),
            codes=("FD104",),
        )


def later_steps(report: Report, context: Context, changed: bool) -> Iterable[PlannedChange]:
    """Warnings on kernels and shapes; on operators and the run only where nothing can be brought into a
    group."""
    seen: set[str] = set()
    for finding in report.findings:
        family = finding.code[:3]
        if finding.severity != "warning" or finding.advice is None or finding.code in seen:
            continue
        if changed and family not in ("FD3", "FD4"):
            continue
        told = family in ("FD1", "FD3", "FD4", "FD5", "FD9") or (family == "FD2" and finding.keeps_out)
        if told and not finding.advice.startswith("Nothing"):
            seen.add(finding.code)
            yield _of_finding(finding, report, context)


def _of_finding(finding: Finding, report: Report, context: Context) -> PlannedChange:
    kind = _KINDS.get(finding.code, ChangeKind.REPAIR)
    more: tuple[str, ...] = ()
    advice = re.split(r"(?<=[.;]) ", finding.advice or "")[0].rstrip(".;")
    if kind is ChangeKind.RUNS and can_run_again(context) and context.request is not None:
        runs = 2 * (context.request.options.runs or 5)
        more, advice = ("--runs", str(max(runs, 5))), f"Run it more often: --runs {max(runs, 5)}"
    elif kind is ChangeKind.FUSER:
        more = ("--fuser", "auto")
    elif kind is ChangeKind.STATIC_SHAPES:
        more = ("--knob", "fusion_strategy=DYNAMIC:10")
    if finding.code == "FD905" and not advice:
        advice = "Mend the program first: it ended with an error"
    knob = re.search(r"--knob (\w+=[\w:]+)", finding.advice or "")
    if finding.code == "FD104" and knob is not None:
        more = ("--knob", knob[1])
    return PlannedChange(
        advice,
        kind,
        finding.source,
        None,
        None,
        _short(finding.message.replace(f", {finding.source})", ")")),
        finding.time.could_save_ms if finding.time is not None else None,
        finding.saves_bytes,
        command_of(report, context, more),
        codes=(finding.code,),
        python=to_keep(more, advice),
    )


def _short(message: str, most: int = 160) -> str:
    first = message.split("\n", 1)[0]
    return first if len(first) <= most else first[: most - 1] + "…"


def faster_products(report: Report, context: Context) -> Iterable[PlannedChange]:
    """TF32, where float32 matrix products take most of a profiled step: no fusion gains as much."""
    hint = report.steps.hint if report.steps is not None else None
    if hint is None or "TF32" not in hint:
        return
    yield PlannedChange(
        "Let float32 matrix products use TF32: torch.set_float32_matmul_precision('high')",
        ChangeKind.KNOB,
        None,
        None,
        None,
        hint.partition(":")[0],
        None,
        None,
        command_of(report, context, ("--verify",)),
        note="it rounds their inputs to 10 bits of mantissa",
    )


def command_of(report: Report, context: Context, more: Sequence[str]) -> str:
    """What proves a change: the run again, or two logs compared."""
    request = context.request
    if request is not None and can_run_again(context):
        return run_again(request, more)
    return compare_logs(report)
