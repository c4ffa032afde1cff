"""How much of what could be fused is fused."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.operators import BY_FUSER, fusible_by, is_fusible
from fusiondoc.model.fusers import FUSERS, fuser_title
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.runs import AnyFuser, Coverage
from fusiondoc.parsers.observed import Observed


def coverage(report: Report, observed: Observed) -> Coverage:
    """Operators in groups against those plus the unfused ones that ran and that the fuser of this run has a
    rule for; and against those plus the ones that any fuser has a rule for.

    Forward and backward together, over all instances; only the first specialisation of a group counts. Views
    are not counted: one outside a group costs nothing. An operator of which the log does not tell whether it
    ran counts as one that did.
    """
    fused = report.fused_operators
    rows = _rows(report)
    some = sum(row.count for row in rows if is_fusible(row.op)) + fused
    missing = _missing_plans(report, observed)
    if missing is not None:
        return Coverage(fused, None, None, AnyFuser(None, None), missing)
    any_fuser = AnyFuser(some, fused / some if some else None)
    if not report.groups and not report.unfused:
        return Coverage(0, 0, None, any_fuser, "the log shows no plan of an executor")
    fuser = _fuser(report)
    if fuser is None:
        why = "no fuser was at work" if report.fuser.effective else "the log shows no fuser at work"
        return Coverage(fused, None, None, any_fuser, why)
    torch = report.environment.get("torch") or observed.release
    own = sum(row.count for row in rows if is_fusible(row.op) and fuser in fusible_by(row.op, torch)) + fused
    unknown = None if own else f"nothing ran that {fuser_title(fuser)} has a rule for"
    return Coverage(fused, own, fused / own if own else None, any_fuser, unknown)


def _rows(report: Report) -> list[Unfused]:
    """The rows that count: what ran, and not again what a further specialisation gave up."""
    again = {
        (node.op, node.source, group.phase)
        for group in report.groups
        if group.specialisation > 1
        for node in group.nodes
    }
    return [
        row
        for row in report.unfused
        if row.ran is not False
        and not (row.reason.code == "FD304" and (row.op, row.source, row.phase) in again)
    ]


def _fuser(report: Report) -> str | None:
    state = report.fuser
    named: Iterable[str | None] = (state.effective, state.requested if state.effective is None else None)
    return next((name for name in named if name in BY_FUSER and name in FUSERS), None)


def _missing_plans(report: Report, observed: Observed) -> str | None:
    """Why the log cannot tell every operator of the run; None where it can."""
    if observed.only_inner_plans:
        return (
            "the log has only plans inside differentiable graphs, not those around them, which"
            " PYTORCH_JIT_LOG_LEVEL=profiling_graph_executor_impl shows"
        )
    if observed.plans_cut:
        return "a plan of the run is cut off in the log"
    return None
