"""FD912: parts that a report leaves out because of its bounds
(docs/evidence/2026-11-23-scaling.md)."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.model import count
from fusiondoc.model.remedies import nothing
from fusiondoc.model.report import Finding, Report
from fusiondoc.parsers.kernels.kept_texts import BUDGET
from fusiondoc.parsers.rows.finished_groups import MOST_INSTANCES, MOST_OPERATORS
from fusiondoc.parsers.rows.programs import MOST_EDGES
from fusiondoc.parsers.rows.tallies import MOST_ROWS


def beyond_bounds(report: Report, context: Context) -> Iterable[Finding]:
    """FD912: rows and texts beyond the bounds of a report."""
    groups, kernels = report.groups_left_out, report.kernels_left_out
    if groups or kernels:
        of_groups = ""
        if groups:
            of_groups = f"{count(groups, 'row')} of groups ({count(report.fusion_groups_left_out, 'group')}) and "
        yield finding(
            "FD912",
            f"{of_groups}{count(kernels, 'kernel')} are left out: a report lists the first {MOST_ROWS:,}"
            " of each",
            remedy=nothing(
                "Nothing: numbers of groups and operators count them.",
                "Logs of parts of the run list the others.",
            ),
        )
    if report.kernel_texts_left_out:
        yield finding(
            "FD912",
            f"{report.kernel_texts_left_out:,} sources and dumps of kernels are left out: a report holds the"
            f" first {BUDGET >> 20} MiB of them",
            remedy="Use fewer dump options, or read logs of parts of the model, to see the others.",
        )
    parts = (
        (
            sum(group.instances_left_out for group in report.groups),
            "instance",
            "of groups",
        ),
        (
            sum(group.nodes_left_out for group in report.groups),
            "operator",
            "of groups",
        ),
        (
            sum(program.edges_left_out for program in report.programs),
            "edge",
            "of plans",
        ),
    )
    listed = [f"{count(number, one)} {of}" for number, one, of in parts if number]
    if listed:
        yield finding(
            "FD912",
            f"{' and '.join(listed)} are left out: a report lists the first {MOST_INSTANCES:,} instances and"
            f" {MOST_OPERATORS:,} operators of a group, and {MOST_EDGES:,} edges of all plans",
            remedy=nothing(
                "Nothing: numbers of groups and operators count them.",
                "Changes are worked out without these edges.",
            ),
        )
    yield from _more_than_is_worked_out(report, context.observed.looked_at_in_part)
    if not report.unfused_left_out:
        return
    together = sum(row.count for row in report.unfused if row.source is None)
    with_lines = sum(row.source is not None for row in report.unfused)
    yield finding(
        "FD912",
        f"{with_lines:,} rows of operators outside groups name their lines; {report.unfused_left_out:,} more rows"
        f" ({together:,} operators) are counted without them, an operator and reason in one row",
        remedy=nothing(
            "Nothing: every number of the report counts them.",
            "Logs of parts of the model name the others.",
        ),
    )


def _more_than_is_worked_out(report: Report, in_part: int) -> Iterable[Finding]:
    """FD912: results that are derived from only a part of the plans."""
    nodes, plans = (
        sum(program.cut for program in report.programs),
        report.programs_left_out,
    )
    if nodes or plans:
        beyond = [f"{count(nodes, 'node')} of plans"] * (nodes > 0) + [
            count(plans, "plan")
        ] * (plans > 0)
        yield finding(
            "FD912",
            f"{' and '.join(beyond)} {'is' if nodes + plans == 1 else 'are'} not drawn: changes are"
            " worked out from the others",
            remedy=nothing(
                "Nothing: numbers of groups and operators count them.",
                "Logs of parts of the model show further effects of a change.",
            ),
        )
    if in_part:
        yield finding(
            "FD912",
            f"{count(in_part, 'node')} of plans {'has' if in_part == 1 else 'have'} so many neighbours that"
            " only the first were looked at: an operator may keep more out of groups than is counted, and"
            " reasons that another neighbour could change state it",
            remedy=nothing(
                "Nothing: numbers of groups and of operators outside them are whole."
            ),
        )
