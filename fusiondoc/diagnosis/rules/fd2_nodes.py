"""FD2xx: an operator that is not fused, with the reason the log states."""

from __future__ import annotations

from collections import Counter
from typing import Iterable

from fusiondoc.diagnosis.operators import is_fusible
from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.diagnosis.surroundings import is_of_a_formula
from fusiondoc.model.codes import CODES, Loss
from fusiondoc.model.layer_names import folded
from fusiondoc.model.report import Finding, Report, Unfused


def not_fused(report: Report, context: Context) -> Iterable[Finding]:
    """One finding for each unfused row that ran; what no fuser can fuse is only a note."""
    of_torch: dict[str, list[Unfused]] = {}
    for row in report.unfused:
        if row.ran is False or CODES[row.reason.code].advice is None or row.op == "prim::GetAttr":
            continue
        if is_of_a_formula(row.source) and (row.reason.code in _OF_ITSELF or not is_fusible(row.op)):
            of_torch.setdefault(row.reason.code, []).append(row)
        else:
            yield _finding(row)
    for code, rows in of_torch.items():
        yield _in_formulas(code, rows)


_OF_ITSELF = ("FD201", "FD226", "FD229", "FD233", "FD235")
"""Reasons that lie in the operator, not in what stands around it."""


def _in_formulas(code: str, rows: list[Unfused]) -> Finding:
    """One for all: torch writes its gradient formulas itself, and a program changes nothing in them."""
    ops = Counter[str]()
    for row in rows:
        ops[row.op] += row.count
    named = ", ".join(f"{op} ({count} times)" if count > 1 else op for op, count in ops.most_common(3))
    more = f" and {len(ops) - 3} more" if len(ops) > 3 else ""
    return finding(
        code,
        f"{named}{more} in torch's own gradient formulas: {sum(ops.values())} are not fused",
        evidence=[one for row in rows for one in row.evidence[:1]][:10],
        advice="Nothing in the program: torch writes these formulas itself.",
        severity="note",
    )


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
