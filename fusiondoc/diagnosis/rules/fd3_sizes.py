"""FD307 for the one failure that nvFuser puts before a group: the size of a reduction's result."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.rules.fd3_failures import describe
from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.model.report import Evidence, Finding, Report
from fusiondoc.parsers.observed import SizedReduction


def sizes_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD307: a plan of nvFuser computes the size of a reduction over a negative dimension."""
    texts: list[tuple[str, Evidence | None]] = []
    if context.error is not None:
        texts.append((context.error.message, None))
    texts += [(logged.text, logged.line) for logged in context.observed.errors]
    for text, line in texts:
        sized = context.observed.sized_for(text)
        if sized:
            yield _finding(report, sized, line)
            return


def _finding(report: Report, sized: list[SizedReduction], line: Evidence | None) -> Finding:
    last = sized[-1]
    group = next(group for group in report.groups if group.id == last.group)
    names = " and ".join(dict.fromkeys(one.op for one in sized))
    lines = {
        node.user_source
        for node in group.nodes
        if node.user_source and any((node.op, node.source) == (one.op, one.source) for one in sized)
    }
    where = ", " + ", ".join(sorted(lines)) if lines else ""
    return finding(
        "FD307",
        f"nvFuser failed, and the error ended the program: before group {describe(group)} it computes the"
        f" size of the result of {names} (prim::ReductionSizes), which fails for the dimension {last.dim}"
        " with keepdim",
        source=min(lines, default=None),
        evidence=[*([line] if line is not None else []), last.line],
        advice=f"Write dimension {last.from_front} for {last.dim} in {names}{where}, or leave the operator"
        f" out of groups (--knob skip_node_kind={last.op}). The fallback does not catch this error: it is not"
        " in the group.",
    )
