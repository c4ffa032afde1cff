"""How much of what could be fused was fused."""

from __future__ import annotations

from fusiondoc.diagnosis.operators import is_fusible
from fusiondoc.model.report import Coverage, Report


def coverage(report: Report) -> Coverage:
    """Operators in groups against those plus the unfused ones that some fuser can fuse.

    Forward and backward together; only the first specialisation of a group counts.
    """
    fused = report.fused_operators
    inside = {
        (node.op, node.source, group.phase)
        for group in report.groups
        if group.specialisation > 1
        for node in group.nodes
    }
    outside = sum(
        row.count
        for row in report.unfused
        if is_fusible(row.op)
        and not (row.reason.code == "FD304" and (row.op, row.source, row.phase) in inside)
    )
    total = fused + outside
    return Coverage(fused, total, fused / total if total else None)
