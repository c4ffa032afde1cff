"""The job summary of GitHub Actions: a few lines of Markdown appended to ``$GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

import re
from pathlib import Path

from fusiondoc.model import Report
from fusiondoc.reports.locations import Problem, problems

_MOST_ROWS = 50


def append_summary(report: Report, file: str | None) -> None:
    """Append the summary; a file that cannot be written is not worth failing for."""
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(summary(report))
    except OSError:
        return


def summary(report: Report) -> str:
    """What fused, in one line, and a table of the problems."""
    cover = report.coverage.fraction
    said = f"{len(report.groups)} fusion groups, {sum(row.count for row in report.unfused)} operators outside"
    said += f", coverage {cover:.0%}" if cover is not None else ""
    fallbacks = sum(fallback.count for fallback in report.fallbacks)
    said += f", {fallbacks} fallbacks" if fallbacks else ""
    lines = [f"### fusiondoc: {_cell(str(report.target.get('name') or 'report'))}", "", said + "."]
    if report.expectations:
        broken = sum(not one.holds for one in report.expectations)
        lines += ["", f"{len(report.expectations) - broken} of {len(report.expectations)} expectations hold."]
    found = problems(report)
    if found:
        lines += ["", "| | code | where | what |", "|---|---|---|---|", *map(_row, found[:_MOST_ROWS])]
    if len(found) > _MOST_ROWS:
        lines += ["", f"and {len(found) - _MOST_ROWS} more"]
    if report.suppressed:
        lines += ["", f"{len(report.suppressed)} findings suppressed."]
    return "\n".join(lines) + "\n\n"


def _row(problem: Problem) -> str:
    place = f"{problem.location.file}:{problem.location.line}" if problem.location else ""
    return f"| {problem.severity} | {problem.code} | {_cell(place)} | {_cell(problem.message)} |"


def _cell(text: str) -> str:
    """Text that Markdown and HTML leave alone, on one line."""
    flat = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", flat)
