"""The Markdown report: for a comment on an issue or pull request.

GitHub takes comments of up to 65,536 characters; rows that do not fit are left out,
and a note says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import Formats, shown
from fusiondoc.rendering.markdown_documents import blocks_of, folded_section
from fusiondoc.rendering.printable import markdown as _text
from fusiondoc.rendering.printable import markdown_code as _code
from fusiondoc.rendering.units import interval, percent, whole
from fusiondoc.views import program_by_itself
from fusiondoc.views.formatting import (
    covered,
    fuser,
    machine,
    peak_share,
    speedups,
    verdict,
    with_near_paths,
)
from fusiondoc.views.report_boundaries import boundaries
from fusiondoc.views.report_context import ReportContext
from fusiondoc.views.report_findings import fallbacks, findings
from fusiondoc.views.report_groups import groups
from fusiondoc.views.report_kernels import kernels
from fusiondoc.views.report_outside import unfused
from fusiondoc.views.report_plan import plan
from fusiondoc.views.report_ranks import ranks, ranks_merged
from fusiondoc.views.report_record import expectations

LIMIT = 65_536
"""Most characters of a comment on GitHub."""

_SPARE = 400
"""Characters that are kept for the note at the end."""

_SHARES = {
    "expectations": 0.2,
    "findings": 0.35,
    "fallbacks": 0.4,
    "groups": 0.55,
    "unfused": 0.8,
    "boundaries": 0.9,
    "kernels": 1.0,
}
"""For each section, the share of the room that may be used up when it ends, so that
none crowds out the others."""
_OPEN = ("expectations", "findings", "fallbacks")
"""Sections that a reader sees without a click."""


def render(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown, below GitHub's limit for a
    comment."""
    report = with_near_paths(report)
    room = _Room()
    for line in _head(report):
        room.add(line)
    for line in _ranks(report):
        room.add(line, LIMIT // 5)
    report = ranks_merged(report)
    context = ReportContext(report, Formats.MARKDOWN)
    sections = (
        expectations(report),
        findings(context),
        fallbacks(context),
        groups(context),
    )
    for section in shown(
        (*sections, unfused(context), boundaries(context), kernels(report)),
        Formats.MARKDOWN,
    ):
        limit = int((LIMIT - _SPARE) * _SHARES[section.key])
        for line in folded_section(
            section, limit - room.used, section.key in _OPEN
        ):
            room.force(line)
    return room.text()


class _Room:
    """Lines, and the number of their characters."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.used = 0

    def add(self, line: str, limit: int = LIMIT - _SPARE) -> bool:
        """Add a line and return True; return False if it does not fit below
        ``limit``."""
        if self.used + len(line) + 1 > limit:
            return False
        self.force(line)
        return True

    def force(self, line: str) -> None:
        self._lines.append(line)
        self.used += len(line) + 1

    def text(self) -> str:
        return "\n".join(self._lines).rstrip("\n") + "\n"


def _ranks(report: Report) -> Iterable[str]:
    if report.ranks is None:
        return
    section = ranks(report)
    yield f"<details open><summary><b>{section.title}</b> ({_text(section.note)})</summary>\n"
    yield from blocks_of(section, LIMIT // 6)
    yield "\n</details>\n"


def _head(report: Report) -> Iterable[str]:
    name = report.target.name or ""
    yield f"### fusiondoc{': ' + _code(name[:300]) if name else ''}\n"
    share = covered(report, percent)
    yield f"**{_text(verdict(report))}**" + (
        f" ({_text(share)})\n" if share is not None else "\n"
    )
    yield _text(", ".join([*machine(report), fuser(report)])[:500])
    for one in speedups(report)[:8]:
        yield f"\n{one.verdict} ({_text(one.text)})"
    rates = []
    for k in report.kernels:
        if k.gb_per_s is not None:
            rates.append(k.gb_per_s.median)
    rates.sort()
    if rates:
        shares = [
            share
            for share in (peak_share(k, report) for k in report.kernels)
            if share is not None
        ]
        best = f", up to {percent(max(shares))} of the peak" if shares else ""
        yield f"\nKernels: {interval(rates[0], rates[-1], whole)} GB/s{best}"
    own = report.fuser.by_itself
    if own is not None:
        code = "; ".join(own.python)
        yield f"\nThe program {_text(program_by_itself.lead(own))} {_code(code)}"
    yield ""
    lines = plan_in_markdown(report)
    if lines:
        yield "\n".join(lines) + "\n"


def plan_in_markdown(report: Report) -> list[str]:
    """Return the plan as lines of GitHub-flavoured Markdown, for comments and job
    summaries; empty without a plan."""
    lines: list[str] = []
    for section in shown([plan(report)], Formats.MARKDOWN):
        lines.extend(blocks_of(section, LIMIT))
    if lines:
        return [f"**{_text(plan(report).title)}**", "", *lines[:-1]]
    return []
