"""Annotations of GitHub Actions: workflow commands such as ``::warning file=model.py,line=31::message``.

Escaping is that of the runner's own toolkit (actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from pathlib import Path

from fusiondoc.model.report import Report
from fusiondoc.reports.locations import Problem, problems
from fusiondoc.reports.printable import markdown, visible
from fusiondoc.reports.wording import covered, outside

MOST = 10
"""GitHub shows ten annotations of each kind for a step and drops the rest."""

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> str:
    """A line for each problem, at most ten of a kind; then a line on those left out. Empty without any."""
    lines = []
    left_out = 0
    shown = dict.fromkeys(_COMMANDS, 0)
    # One notice is kept for the line on the rest.
    most = {"error": MOST, "warning": MOST, "note": MOST - 1}
    for problem in problems(report):
        if shown.get(problem.severity, 0) >= most.get(problem.severity, 0):
            left_out += 1
            continue
        shown[problem.severity] += 1
        lines.append(_line(problem))
    if left_out:
        lines.append(
            f"::notice title=fusiondoc::{left_out} more, which GitHub would not show: see the report"
        )
    return "".join(line + "\n" for line in lines)


def _line(problem: Problem) -> str:
    parts = []
    if problem.location is not None:
        parts = [f"file={_property(problem.location.file)}", f"line={problem.location.line}"]
    parts.append(f"title={_property('fusiondoc ' + problem.code)}")
    text = problem.message + (f"\n{problem.advice}" if problem.advice else "")
    return f"::{_COMMANDS.get(problem.severity, 'notice')} {','.join(parts)}::{_data(text)}"


def _data(text: str) -> str:
    return visible(text.replace("\r\n", "\n")).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


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
    share = covered(report, "{:.0%}".format)
    loose = sum(row.count for row in outside(report))
    said = f"{report.fusion_groups} fusion groups, {loose} operators outside"
    said += f" ({share})" if share is not None else ""
    fallbacks = sum(fallback.count for fallback in report.fallbacks)
    said += f", {fallbacks} fallbacks" if fallbacks else ""
    lines = [
        f"### fusiondoc: {markdown(str(report.target.get('name') or 'report'))}",
        "",
        markdown(said) + ".",
    ]
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
    cells = (problem.severity, problem.code, place, problem.message)
    return f"| {' | '.join(map(markdown, cells))} |"
