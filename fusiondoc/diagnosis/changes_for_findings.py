"""Steps for the findings of a whole run: those that come before any change of the
program, and those that remain if no change helps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fusiondoc.captures.fuser_fault import FuserFault
from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.commands import can_run_again, compare_logs, run_again
from fusiondoc.diagnosis.planned_changes import SuggestedChange
from fusiondoc.diagnosis.proofs import Proofs
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.step_time import slow_products
from fusiondoc.model import count
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.code_kinds import Family
from fusiondoc.model.codes import CODES
from fusiondoc.model.remedies import AS_REQUESTED, Setting
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.source import Source

_OF_RUNS = ("FD101", "FD102", "FD103", "FD104", "FD901")
"""Findings that explain why a run has no group."""


_OF_FEW_RUNS = ("FD101", "FD103")


def blocking_steps(report: Report, context: Context) -> Iterable[SuggestedChange]:
    """Yield the steps for errors and for findings that kept everything from being
    fused: the first of each code."""
    seen: set[str] = set()
    fault = context.fault
    if fault is not None:
        yield from _around_the_fuser(fault)
    for finding in _blocking(report, fault):
        if finding.code in seen:
            continue
        seen.add(finding.code)
        yield step_of(finding, report, context)
    switched_off = []
    for row in report.unfused:
        if row.reason.code == "FD104":
            switched_off.append(row)
    if (
        switched_off
        and "FD104" not in seen
        and not context.switches.fuser_off_in_run
    ):
        operators = sum(row.count for row in switched_off)
        yield SuggestedChange(
            _ANY_FUSER, f"{operators} operators that a fuser takes"
        )


def _blocking(report: Report, fault: FuserFault | None) -> Iterable[Finding]:
    """Return the blocking findings without those that another step covers: after an
    error no further passes are suggested, and the ways around a fuser's error are
    steps of their own."""
    ended = any(
        one.code == "FD905" and one.severity == "error" for one in report.findings
    )
    left_out = [
        *(_OF_FEW_RUNS if ended else ()),
        *(["FD309"] if fault is not None and fault.ways else ()),
    ]
    return (
        one
        for one in report.findings
        if one.code not in left_out and _blocks(one, report)
    )


_ANY_FUSER = Change(
    ChangeKind.FUSER,
    "Choose a fuser: all fusers are off",
    setting=Setting(fuser="auto"),
    codes=("FD104",),
)


def _blocks(finding: Finding, report: Report) -> bool:
    """True if the finding comes before changes of the program: it is about the run,
    and it has a remedy or is an error that ended the run."""
    if finding.keeps_out or (finding.remedy is None and finding.code != "FD905"):
        return False
    early = finding.code in _OF_RUNS and not report.groups
    return finding.severity == "error" or (early and finding.severity == "warning")


_MOST_AROUND = 2


def _around_the_fuser(fault: FuserFault) -> Iterable[SuggestedChange]:
    """Yield the settings that avoid an error of the fused run, as found by running
    them."""
    ends = (
        "the run ends without an error"
        + " and agrees with eager" * fault.held_against_eager
    )
    for way in fault.ways[:_MOST_AROUND]:
        setting = Setting.of_option(way.change)
        change = Change(
            ChangeKind.KNOB if setting.fuser is None else ChangeKind.FUSER,
            f"Run it with {way.change}",
            setting=replace(setting, flags=("--verify",))
            if fault.held_against_eager
            else setting,
            codes=("FD309",),
        )
        brings = f"{ends}: {count(way.ops_fused, 'operator')} in {count(way.groups, 'group')}"
        yield SuggestedChange(change, brings, operators=way.ops_fused)


_LATER = (Family.RUNS, Family.FAILURE, Family.KERNEL, Family.MODEL, Family.LOG)
_BESIDE_CHANGES = (Family.FAILURE, Family.KERNEL)
_OF_SHAPES = {
    code for code, one in CODES.items() if one.change is ChangeKind.STATIC_SHAPES
}
"""Groups and whole plans that are compiled again for other shapes: one change helps
with both."""


def later_steps(
    report: Report, context: Context, changed: bool
) -> Iterable[SuggestedChange]:
    """Yield the warnings on kernels and shapes; those on operators and the run only
    if no change brings an operator into a group.

    Args:
        changed: the plan has changes that bring operators into groups.
    """
    seen: set[str] = set()
    proofs = Proofs(report, context.fixes)
    for finding in report.findings:
        if finding.code in seen or not _comes_later(finding, changed):
            continue
        if finding.code in _OF_SHAPES and seen & _OF_SHAPES:
            continue
        seen.add(finding.code)
        setting = finding.remedy.setting if finding.remedy is not None else None
        if setting is None:
            yield step_of(finding, report, context)
        elif not proofs.refutes_setting(setting):
            yield replace(
                step_of(finding, report, context), proof=proofs.of_setting(setting)
            )


def _comes_later(finding: Finding, changed: bool) -> bool:
    if (
        finding.severity != "warning"
        or finding.remedy is None
        or finding.nothing_to_do
    ):
        return False
    family = CODES[finding.code].family
    if changed:
        return family in _BESIDE_CHANGES
    return family in _LATER or (family is Family.NODE and bool(finding.keeps_out))


def step_of(finding: Finding, report: Report, context: Context) -> SuggestedChange:
    """Return the first step that the remedy of a finding names."""
    words, setting = _step(finding, report, context)
    change = Change(
        CODES[finding.code].change,
        words.rstrip(".;"),
        setting=setting,
        where=(finding.source,) if finding.source is not None else (),
        codes=(finding.code,),
    )
    return SuggestedChange(
        change,
        _short(finding.message.replace(f", {finding.source})", ")")),
        finding.time.could_save_ms if finding.time is not None else None,
        finding.saves_bytes,
    )


_IN_PLACE = (ChangeKind.OUT_OF_PLACE, ChangeKind.NOT_INPLACE)


def with_lines_repaired(
    steps: Iterable[SuggestedChange], suggested: Iterable[Change], report: Report
) -> Iterable[SuggestedChange]:
    """Yield the steps; for an in-place operator that ended the program, the step
    shows its line written out of place.

    Args:
        suggested: changes of rows of the report, at their lines.
    """
    at_lines: dict[str, Change] = {}
    for one in suggested:
        if one.kind in _IN_PLACE and one.lines:
            sources = map(Source.parse, report.unfused[one.rows[0]].users_lines)
            for source in sources:
                if source is not None:
                    at_lines[source.at_line] = one
    for step in steps:
        own = at_lines.get(step.change.where[0]) if step.change.where else None
        if own is None or step.change.codes != ("FD905",):
            yield step
            continue
        title = f"{own.title}: TorchScript refuses it while gradients are recorded"
        change = replace(step.change, title=title, where=own.where, lines=own.lines)
        yield replace(step, change=change, ops=(report.unfused[own.rows[0]].op,))


def _step(
    finding: Finding, report: Report, context: Context
) -> tuple[str, Setting]:
    """Return the first step for a finding, and the setting with which a run shows
    that the step helps."""
    request = context.request
    if (
        CODES[finding.code].change is ChangeKind.RUNS
        and request is not None
        and can_run_again(context)
    ):
        more = Setting(runs=max(2 * (request.options.runs or 5), 5))
        return f"Run it more often: {more.text}", more
    if (
        finding.code == "FD905"
        and context.fault is None
        and request is not None
        and report.groups
    ):
        return "Run it without the fuser, to find out whose error it is", Setting(
            fuser="none"
        )
    if finding.remedy is None:
        return "Fix the program first: it ended with an error", AS_REQUESTED
    return finding.remedy.step, finding.remedy.setting or AS_REQUESTED


def _short(message: str, most: int = 160) -> str:
    first = message.split("\n", 1)[0]
    if len(first) <= most:
        return first
    return first[: most - 1] + "…"


def faster_products(report: Report, context: Context) -> Iterable[SuggestedChange]:
    """Suggest TF32 if float32 matrix products take most of a profiled step: no
    fusion gains as much."""
    share = report.steps.without_tf32 if report.steps is not None else None
    if share is not None:
        yield SuggestedChange(
            _TF32, slow_products(share), command=_with_tf32(report, context)
        )


_TF32 = Change(
    ChangeKind.KNOB,
    "Let float32 matrix products use TF32: torch.set_float32_matmul_precision('high')",
    note="it rounds their inputs to 10 bits of mantissa",
)


def _with_tf32(report: Report, context: Context) -> str:
    """Return the command that times the run with the environment variable for TF32
    (``check_env`` of aten/src/ATen/Context.h, 1.12 to 2.13; a program that sets it
    itself takes precedence) and compares it with the earlier run."""
    if context.request is None or not can_run_again(context):
        return compare_logs(report)
    again = run_again(context.request, Setting(flags=("--time", "--verify")))
    return f"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 {again} && fusiondoc compare"
