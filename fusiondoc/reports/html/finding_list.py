"""The findings on a page, with the lines of the log that they quote, and the groups that fell back."""

from __future__ import annotations

from fusiondoc.model import dataclass
from fusiondoc.model.report import Fallback, Finding
from fusiondoc.reports.html.page_context import Context, Quotes, can_change, shown
from fusiondoc.views.formatting import DOING
from fusiondoc.views.step_words import takes

MOST_SINGLE = 100
"""Findings on single operators; the table of those operators has all."""


@dataclass(frozen=True)
class FindingRow:
    finding: Finding
    where: str
    takes: str | None
    quotes: Quotes


@dataclass(frozen=True)
class FallbackRow:
    fallback: Fallback
    doing: str
    times: str
    quotes: Quotes


@dataclass(frozen=True)
class Findings:
    """Worst first. Those on single operators are folded: ``single`` of them, of which the first are rows."""

    main: tuple[FindingRow, ...]
    single: int
    rows: tuple[FindingRow, ...]
    fallbacks: tuple[FallbackRow, ...]


def findings_view(context: Context) -> Findings:
    def row(finding: Finding) -> FindingRow:
        quotes = context.quotes(finding.evidence)
        return FindingRow(finding, shown(finding.source), takes(finding.time), quotes)

    told = (one for one in context.report.findings if not one.in_header)
    findings = sorted(told, key=lambda one: not can_change(one.code))
    single = [one for one in findings if one.in_rows]
    return Findings(
        main=tuple(row(one) for one in findings if not one.in_rows),
        single=len(single),
        rows=tuple(map(row, single[:MOST_SINGLE])),
        fallbacks=tuple(
            FallbackRow(
                one,
                DOING.get(one.stage, one.stage),
                f"{one.count:,}" if one.count_exact else f"at least {one.count:,}",
                context.quotes(one.evidence),
            )
            for one in context.report.fallbacks
        ),
    )
