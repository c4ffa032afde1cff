"""Annotations of GitHub Actions: workflow commands such as ``::warning file=model.py,line=31::message``.

Escaping is that of the runner's own toolkit (actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from fusiondoc.model import Report
from fusiondoc.reports.locations import Problem, problems

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
        if shown[problem.severity] >= most[problem.severity]:
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
    return f"::{_COMMANDS[problem.severity]} {','.join(parts)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
