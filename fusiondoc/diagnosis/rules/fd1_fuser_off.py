"""FD104: the call or setting that switched the fuser off, or something that it
needs."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.captures.request import IN_PROCESS
from fusiondoc.captures.switch_records import (
    BEFORE,
    CALLER,
    FUSER,
    LOADING,
    RUNNING,
    TRACED,
    SwitchedOff,
)
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.fusers import calls_off, fuser_title, titles
from fusiondoc.model.remedies import Remedy, Setting
from fusiondoc.model.report import Finding, Report

_ONLY_PROFILED = titles(lambda fuser: fuser.limits.only_profiled)

WHAT_FUSION_NEEDS = {
    "profiling_executor": f"{_ONLY_PROFILED} fuse only what the profiling executor profiled",
    "profiling_mode": "without profiled types nothing is fused",
    "graph_optimize": "graphs run as they are written, without any pass",
}

SWITCHES_OFF = {
    FUSER: calls_off(),
    "profiling_executor": "torch._C._jit_set_profiling_executor(False)",
    "profiling_mode": "torch._C._jit_set_profiling_mode(False)",
    "graph_optimize": "torch._C._set_graph_executor_optimize(False) or torch.jit.optimized_execution(False)",
}

_SEARCH = "Search the program and the packages that it imports for _jit_set_ and _jit_override_."


def executor_off(report: Report, context: Context) -> Iterable[Finding]:
    """FD104: a knob or an environment variable switches off something that every
    fusion pass needs."""
    if report.fuser.requested in ("none", "legacy") or _fused(report):
        return
    for knob in report.knobs:
        if knob.effective == "off" and knob.name in WHAT_FUSION_NEEDS:
            on = Setting(knobs={knob.name: "on"})
            yield finding(
                "FD104",
                f"{knob.name} is off: {WHAT_FUSION_NEEDS[knob.name]}",
                remedy=Remedy(f"Turn it on: {on.text}", setting=on),
            )
    variable = variable_off(report, context)
    if variable is not None:
        yield finding(
            "FD104",
            f"{variable} is set: it switches {_fuser(report)} off, whatever the program sets",
            remedy=f"Unset it: unset {variable.partition('=')[0]}",
        )


def off_by_program(report: Report, context: Context) -> Iterable[Finding]:
    """FD104: the program switches off its fuser, or something that the fuser needs,
    so that less fuses than the run shows, or nothing."""
    if report.fuser.requested in ("none", "legacy"):
        return
    variable = variable_off(report, context)
    for row in context.switches.rows:
        if _matters(row, report, context) and not (
            row.what == FUSER and variable is not None
        ):
            yield finding(
                "FD104",
                _message(row, report, context),
                source=row.at,
                remedy=_advice(row),
            )


def _matters(row: SwitchedOff, report: Report, context: Context) -> bool:
    """True if the switch keeps something of the program from being fused, in this
    run or without fusiondoc."""
    if row.when in (TRACED, CALLER) or (row.when == LOADING and row.what == FUSER):
        return True  # this run had the fuser on
    if not _fused(report):
        return True
    if row.when != RUNNING or not row.left:
        return False
    if _is_over(report, context):
        return any(unfused.reason.code == "FD104" for unfused in report.unfused)
    return True  # a model, or a process, that runs on without it


def _is_over(report: Report, context: Context) -> bool:
    """True if the run was a whole program: at its end nothing is left that could
    fuse."""
    in_process = (
        context.request is not None and context.request.target.kind == IN_PROCESS
    )
    return report.script is not None and not in_process


def _fused(report: Report) -> bool:
    return any(not group.fallback for group in report.groups)


def _message(row: SwitchedOff, report: Report, context: Context) -> str:
    what = _fuser(report) if row.what == FUSER else row.what
    without = "without fusiondoc nothing is fused"
    if row.instead is not None:
        without = f"without fusiondoc {fuser_title(row.instead)} fuses in its place"
    if row.when == TRACED:
        return (
            f"The program switches {what} off around what its model calls: this run traced the model with it"
            " on, and without fusiondoc nothing there is fused"
        )
    if row.when == CALLER:
        return (
            f"The calling process has {what} off: this run had it on, and {without}"
        )
    if row.when == BEFORE:
        return f"This process had {what} off before the block began: nothing in it is fused"
    if row.what != FUSER:
        return f"The program switches {what} off itself: {WHAT_FUSION_NEEDS.get(what, 'fusion needs it')}"
    if row.when == LOADING:
        return f"The program switches {what} off itself: this run switched it on again, and {without}"
    return f"The program switches {what} off while it runs: plans made after that hold no group"


def _advice(row: SwitchedOff) -> str:
    if row.call is not None:
        return f"Remove {row.call}, or leave it out where the model runs."
    known = SWITCHES_OFF.get(row.what, SWITCHES_OFF[FUSER])
    if row.what != FUSER:
        return f"Remove the call of {known} from the program or a package that it imports."
    return _SEARCH


def variable_off(report: Report, context: Context) -> str | None:
    """Return the environment variable with its value, if it is set and switched the
    run's fuser off."""
    if context.request is None:
        return None
    return context.request.off_by_variable(report.fuser.effective)


def _fuser(report: Report) -> str:
    name = report.fuser.effective
    if name not in (None, "none"):
        return fuser_title(name)
    return "the fuser"
