"""FD0xx: the environment of the run and its knobs."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.fd1_fuser_off import executor_off, off_by_program
from fusiondoc.fuser_knobs import parse_version
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Finding, Report


def no_nvfuser(report: Report, context: Context) -> Iterable[Finding]:
    """FD001: nvFuser is not in this torch, or its switch does nothing."""
    gone = context.observed.fuser_gone
    requested = report.fuser.requested
    missing = requested in ("auto", "nvfuser") and report.fuser.effective not in ("nvfuser", None)
    if gone is None and not missing:
        return
    torch = report.environment.get("torch")
    where = f"torch {torch}" if torch else "this torch"
    message = f"nvFuser is not in TorchScript of {where}; its switches do nothing"
    brief = f"no nvFuser in {where}"
    if gone is None and torch is not None and parse_version(torch) < (2, 2):
        why = (report.fuser.why or "").partition("; NNC")[0]
        brief = "nvFuser cannot work here"
        message = f"{brief}: " + (why[len("auto: ") :] if why.startswith("auto: ") else why)
    yield finding(
        "FD001",
        message,
        evidence=[gone] if gone is not None else [],
        severity="error" if requested == "nvfuser" else "note",
        brief=brief,
        remedy=Remedy(
            "For nvFuser use torch 1.12 to 2.1 with CUDA;",
            "here NNC fuses (fusiondoc env says what can run).",
        ),
    )


def dead_knobs(report: Report, context: Context) -> Iterable[Finding]:
    """FD001: a knob that was asked for does nothing on this torch."""
    for knob in report.knobs:
        if knob.requested is not None and knob.live is False:
            yield finding(
                "FD001",
                f"The knob {knob.name}={knob.requested} does nothing on this torch",
                remedy=f"fusiondoc knobs {knob.name} says in which torch versions it is live.",
                severity="warning",
            )


def other_fuser(report: Report, context: Context) -> Iterable[Finding]:
    """FD002: the groups are of another fuser than the one asked for."""
    requested, effective = report.fuser.requested, report.fuser.effective
    if requested in (None, "auto", "none") or effective in (None, requested):
        return
    yield finding(
        "FD002",
        f"{requested} was asked for, {effective} worked",
        remedy=Remedy("See why with: fusiondoc env.", report.fuser.why or ""),
    )


def bad_dump_option(report: Report, context: Context) -> Iterable[Finding]:
    """FD003: everything fell back and no kernel ran, as an unknown dump option makes it."""
    if not report.fallbacks or report.kernels:
        return
    known = {fallback.error_kind for fallback in report.fallbacks} - {None}
    if known and "option" not in known:
        return  # the cause is another one
    if not _options_were_set(context) and "option" not in known:
        return
    if any(not group.fallback and group.kind == "CudaFusionGroup" for group in report.groups):
        return
    yield finding(
        "FD003",
        "Every fusion fell back and the log shows no kernel: an unknown option in PYTORCH_NVFUSER_DUMP,"
        " _ENABLE or _DISABLE does this, without a message",
        evidence=[e for fallback in report.fallbacks for e in fallback.evidence][:3],
        remedy="Check the names against this torch: fusiondoc knobs PYTORCH_NVFUSER_DUMP",
    )


def _options_were_set(context: Context) -> bool:
    """By the user: fusiondoc sets only what this torch knows. A plain log tells it where a shell or the
    program printed the variable."""
    request = context.request
    if request is None:
        return context.observed.options_set is not None
    theirs = request.environment_user
    return bool(request.merged) or any(name.startswith("PYTORCH_NVFUSER_") for name in theirs)


def merged_variables(report: Report, context: Context) -> Iterable[Finding]:
    """FD004: log variables of the user were merged with what was needed."""
    if context.request is None or not context.request.merged:
        return
    values = context.request.environment_set
    shown = "; ".join(f"{name}={values.get(name, '')}" for name in context.request.merged)
    yield finding(
        "FD004",
        f"Variables that were set already were merged with what fusiondoc needs: {shown}",
        remedy="Unset them for a run with only fusiondoc's values.",
    )


OF_ENVIRONMENT = (
    no_nvfuser,
    dead_knobs,
    executor_off,
    off_by_program,
    other_fuser,
    bad_dump_option,
    merged_variables,
)
