"""FD0xx: the environment of the run and its knobs."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.diagnosis.of_fusers.findings import bad_dump_option, fuser_gone
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.fd1_fuser_off import executor_off, off_by_program
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Finding, Report


def dead_knobs(report: Report, context: Context) -> Iterable[Finding]:
    """FD001: a requested knob does nothing on this torch."""
    for knob in report.knobs:
        if knob.requested is not None and knob.live is False:
            yield finding(
                "FD001",
                f"The knob {knob.name}={knob.requested} does nothing on this torch",
                remedy=f"fusiondoc knobs {knob.name} lists the torch versions in which it is live.",
                severity="warning",
            )


def other_fuser(report: Report, context: Context) -> Iterable[Finding]:
    """FD002: the groups are from another fuser than the requested one."""
    requested, effective = report.fuser.requested, report.fuser.effective
    if requested in (None, "auto", "none") or effective in (None, requested):
        return
    yield finding(
        "FD002",
        f"{requested} was requested, {effective} worked",
        remedy=Remedy("See why with: fusiondoc env.", report.fuser.why or ""),
    )


def merged_variables(report: Report, context: Context) -> Iterable[Finding]:
    """FD004: the user's log variables were merged with those that fusiondoc
    needs."""
    if context.request is None or not context.request.merged:
        return
    values = context.request.environment_set
    parts = []
    for name in context.request.merged:
        parts.append(f"{name}={values.get(name, '')}")
    shown = "; ".join(parts)
    yield finding(
        "FD004",
        f"Variables that were set already were merged with what fusiondoc needs: {shown}",
        remedy="Unset them for a run with only fusiondoc's values.",
    )


OF_ENVIRONMENT = (
    fuser_gone,
    dead_knobs,
    executor_off,
    off_by_program,
    other_fuser,
    bad_dump_option,
    merged_variables,
)
