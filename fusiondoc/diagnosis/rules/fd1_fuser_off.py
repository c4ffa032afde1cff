"""FD104: what switched the fuser off, or something that it needs."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.model import fuser_title
from fusiondoc.model.report import Finding, Report

WHAT_FUSION_NEEDS = {
    "profiling_executor": "nvFuser and NNC fuse only what the profiling executor profiled",
    "profiling_mode": "without profiled types nothing is fused",
    "graph_optimize": "graphs run as they are written, without any pass",
}

SWITCHES_OFF = {
    "profiling_executor": "torch._C._jit_set_profiling_executor(False)",
    "profiling_mode": "torch._C._jit_set_profiling_mode(False)",
    "graph_optimize": "torch._C._set_graph_executor_optimize(False) or torch.jit.optimized_execution(False)",
}

_SEARCH = "Search the program and the packages that it imports for _jit_set_ and _jit_override_."


def executor_off(report: Report, context: Context) -> Iterable[Finding]:
    """FD104: what every fusion pass needs is switched off. nvFuser then still makes groups, and refuses to
    compile them (kernel_cache.cpp: "legacy executor is not supported by nvfuser")."""
    if report.fuser.requested in ("none", "legacy") or any(not group.fallback for group in report.groups):
        return
    for knob in report.knobs:
        if knob.effective == "off" and knob.name in WHAT_FUSION_NEEDS:
            yield finding(
                "FD104",
                f"{knob.name} is off: {WHAT_FUSION_NEEDS[knob.name]}",
                advice=f"Turn it on: --knob {knob.name}=on",
            )
    for name in context.switches.executor_off:
        yield finding(
            "FD104",
            f"The program switches {name} off itself: {WHAT_FUSION_NEEDS[name]}",
            advice=f"Remove the call of {SWITCHES_OFF[name]} from the program or a package that it imports.",
        )
    variable = variable_off(report, context)
    if context.switches.fuser_off_later and variable is None:
        yield finding(
            "FD104",
            f"The program switches {_fuser(report)} off while it runs: plans made after that hold no group",
            advice=_SEARCH,
        )
    if variable is not None:
        yield finding(
            "FD104",
            f"{variable} is set: it switches NNC off, whatever the program says",
            advice=f"Unset it: unset {variable.partition('=')[0]}",
        )


def fuser_set_back(report: Report, context: Context) -> Iterable[Finding]:
    """FD104: the program switches the fuser of this run off, so that what this run shows is not what it does
    elsewhere."""
    if context.switches.fuser_off:
        yield finding(
            "FD104",
            f"The program switches {_fuser(report)} off itself: this run switched it on again, and without"
            " fusiondoc nothing is fused",
            advice=_SEARCH,
        )


def variable_off(report: Report, context: Context) -> str | None:
    """``PYTORCH_TENSOREXPR=0``, if that is set and switched the fuser of the run off."""
    return context.request.off_by_variable(report.fuser.effective) if context.request is not None else None


def _fuser(report: Report) -> str:
    return fuser_title(report.fuser.effective or "") or "the fuser"
