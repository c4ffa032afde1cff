"""FD2xx: an operator that is not fused, with the reason the log states."""

from __future__ import annotations

from typing import Iterable

from fusiondoc.diagnosis.operators import is_fusible
from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.model.codes import CODES, Loss
from fusiondoc.model.layer_names import folded
from fusiondoc.model.report import Finding, Report, Unfused


def not_fused(report: Report, context: Context) -> Iterable[Finding]:
    """One finding for each unfused row that ran; what no fuser can fuse is only a note."""
    for row in report.unfused:
        if row.ran is not False and CODES[row.reason.code].advice is not None and row.op != "prim::GetAttr":
            yield _finding(row)


def _finding(row: Unfused) -> Finding:
    times = f" ({row.count} times)" if row.count > 1 else ""
    phase = f" in {row.phase}" if row.phase else ""
    where = f" (layer {folded(row.layers)})" if row.layers else ""
    code = CODES[row.reason.code]
    return finding(
        code.code,
        f"{row.op}{times} is not fused{phase}{where}: {row.reason.text}",
        source=row.user_source,
        evidence=row.evidence,
        advice=code.advice,
        severity="warning" if row.reason.stated and is_fusible(row.op) else "note",
        saves_bytes=row.bytes_moved if code.loss is Loss.RESULT else None,
    )


RULES = (not_fused,)
