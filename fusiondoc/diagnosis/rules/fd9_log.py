"""FD906: what a log that was made without fusiondoc cannot tell, and what to set for it."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.fuser_knobs.needed import DUMPS, LOG_LEVELS
from fusiondoc.model.report import Finding, Report

_FUSERS = ("nvfuser", "nnc")

_STATED_BY_A_FUSER = ("FD222", "FD223", "FD224", "FD233", "FD299")
"""Causes that are worked out only where the fuser's own word is not in the log."""


def missing_parts(report: Report, context: Context) -> Iterable[Finding]:
    """FD906: groups without kernels, kernels without groups, operators without the fuser's own reason."""
    fuser = report.fuser.effective or ("nvfuser" if report.kernels else None)
    if context.request is not None or fuser not in _FUSERS:
        return
    missing = list(_reasons(report, context, fuser))
    if fuser == "nvfuser":
        missing += _kernels(report)
    if not missing:
        return
    variables = f"PYTORCH_JIT_LOG_LEVEL='{LOG_LEVELS[fuser]}'"
    if fuser == "nvfuser":
        variables += f" PYTORCH_NVFUSER_DUMP={','.join(DUMPS)}"
    yield finding(
        "FD906",
        "This log cannot tell " + "; nor ".join(missing),
        advice=f"Set {variables} before the process starts, and keep stdout and stderr in one file; or let"
        " fusiondoc diagnose run it.",
    )


def _reasons(report: Report, context: Context, fuser: str) -> Iterable[str]:
    worked_out = any(
        row.reason.code in _STATED_BY_A_FUSER for row in report.unfused if row.op.startswith("aten::")
    )
    stated = any(row.reason.stated for row in report.unfused)
    if worked_out and not stated and not (fuser == "nvfuser" and "partition" in context.observed.levels):
        log = ">partition" if fuser == "nvfuser" else ">>tensorexpr_fuser"
        yield f"what the fuser itself says about the operators that it rejected ({log})"


def _kernels(report: Report) -> Iterable[str]:
    if report.kernels and not report.groups:
        yield "which operators the kernels compute (graph_fuser)"
    elif any(not kernel.groups for kernel in report.kernels):
        yield "to which group each kernel belongs (>>kernel_cache)"
    if any(not group.fallback for group in report.groups) and not report.kernels:
        yield "which kernels ran and how fast (PYTORCH_NVFUSER_DUMP)"


RULES = (missing_parts,)
