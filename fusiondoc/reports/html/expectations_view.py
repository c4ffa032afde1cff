"""What ``check`` expected, and what was found."""

from __future__ import annotations

from fusiondoc.model.report import Expectation
from fusiondoc.reports.html.context import Context
from fusiondoc.reports.html.markup import Child, Markup, el
from fusiondoc.reports.html.parts import group_links, section, table


def expectations_view(context: Context) -> Markup | None:
    """A row for each expectation, the broken ones first; None without any."""
    rows = context.report.expectations
    if not rows:
        return None
    broken = sum(not row.holds for row in rows)
    ordered = sorted(rows, key=lambda row: row.holds)
    columns = [("", ""), ("Expected", ""), ("Found", ""), ("In", "")]
    note = f"{len(rows) - broken} of {len(rows)} hold" + (f", {broken} broken." if broken else ".")
    listed = table("Expectations", columns, [_row(row) for row in ordered])
    return section("expectations", "Expectations", listed, note=note)


def _row(row: Expectation) -> list[Child]:
    verdict = el("span", "holds" if row.holds else "broken", class_="sev note" if row.holds else "sev error")
    found: list[Child] = [row.found, " ", *group_links(row.groups)]
    if row.why:
        found.append(el("p", row.why, class_="muted"))
    place = row.file + (f":{row.line}" if row.line is not None else "")
    return [verdict, row.expected, el("div", *found), el("code", place)]
