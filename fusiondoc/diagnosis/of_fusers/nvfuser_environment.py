"""FD001 and FD003: a fuser that this torch does not have, and options that make it
fail without a message."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.fuser_knobs import parse_version
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Finding, Report


def fuser_gone(report: Report, context: Context) -> Iterable[Finding]:
    """FD001: nvFuser is not in this torch, or its switch does nothing."""
    gone = context.observed.fuser_gone
    requested = report.fuser.requested
    missing = requested in ("auto", "nvfuser") and report.fuser.effective not in (
        "nvfuser",
        None,
    )
    if gone is None and not missing:
        return
    torch = report.environment.get("torch")
    where = f"torch {torch}" if torch else "this torch"
    message = f"nvFuser is not in TorchScript of {where}; its switches do nothing"
    brief = f"no nvFuser in {where}"
    if gone is None and torch is not None and parse_version(torch) < (2, 2):
        why = (report.fuser.why or "").partition("; NNC")[0]
        brief = "nvFuser cannot work here"
        message = f"{brief}: " + (
            why[len("auto: ") :] if why.startswith("auto: ") else why
        )
    yield finding(
        "FD001",
        message,
        evidence=[gone] if gone is not None else [],
        severity="error" if requested == "nvfuser" else "note",
        brief=brief,
        remedy=Remedy(
            "For nvFuser use torch 1.12 to 2.1 with CUDA;",
            "here NNC fuses (fusiondoc env lists what can run).",
        ),
    )


def bad_dump_option(report: Report, context: Context) -> Iterable[Finding]:
    """FD003: everything fell back and no kernel ran, as with an unknown dump
    option."""
    if not report.fallbacks or report.kernels:
        return
    known = {fallback.error_kind for fallback in report.fallbacks} - {None}
    if known and "option" not in known:
        return  # the cause is another one
    if not _options_were_set(context) and "option" not in known:
        return
    if any(
        not group.fallback and group.kind == "CudaFusionGroup"
        for group in report.groups
    ):
        return
    yield finding(
        "FD003",
        "Every fusion fell back and the log shows no kernel: an unknown option in PYTORCH_NVFUSER_DUMP,"
        " _ENABLE or _DISABLE does this, without a message",
        evidence=[e for fallback in report.fallbacks for e in fallback.evidence][
            :3
        ],
        remedy="Check the names against this torch: fusiondoc knobs PYTORCH_NVFUSER_DUMP",
    )


def _options_were_set(context: Context) -> bool:
    """True if the user set nvFuser's options: fusiondoc sets only those that this
    torch knows. For a plain log: if a shell or the program printed the variable."""
    request = context.request
    if request is None:
        return context.observed.options_set is not None
    theirs = request.environment_user
    return bool(request.merged) or any(
        name.startswith("PYTORCH_NVFUSER_") for name in theirs
    )
