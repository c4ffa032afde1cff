"""Findings at their lines of the repository in the formats of code hosts:
annotations of GitHub Actions, and GitLab's code quality report. ``sarif.py`` has
SARIF.

GitHub: workflow commands such as ``::warning file=model.py,line=31::message``;
escaping is that of the runner's own toolkit (actions/toolkit,
packages/core/src/command.ts). GitLab: a JSON list of issues in the format of Code
Climate; the keys are those that docs.gitlab.com (CI/CD, Code Quality, "Code Quality
report format") requires. Problems without a line of the user's are never put on an
arbitrary line: one summary names them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fusiondoc.model import count
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.checked_models import CheckedModels, CheckOutcome
from fusiondoc.model.equal_ranks import each_rank
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import Expectation, Suppressed
from fusiondoc.model.source import PACKAGES, Source, from_package
from fusiondoc.rendering.printable import in_json, markdown, visible
from fusiondoc.rendering.stable_names import NameCounts, without_figures
from fusiondoc.rendering.units import short_percent
from fusiondoc.reports.markdown import plan_in_markdown
from fusiondoc.views.formatting import (
    covered,
    groups_of,
    run_folder,
    with_near_paths,
    with_short_positions,
)
from fusiondoc.views.losses_in_sentences import expected_and_found
from fusiondoc.views.plan_words import gain, proof, unlocks

EXPECTATION = "expectation"
"""The rule of a broken expectation in machine formats."""


PLAN = "plan"
"""The rule of a change of the plan in machine formats."""


class Location(NamedTuple):
    """A line of a file, or the whole file; ``file`` is relative to the repository
    if it is in it, with forward slashes."""

    file: str
    line: int | None


class Problem(NamedTuple):
    """A finding, or a broken expectation, for machine formats."""

    code: str
    severity: str
    message: str
    advice: str | None
    location: Location | None
    suppressed_by: str | None = None
    edits: tuple[Edit, ...] = ()
    """The lines to change."""
    expected_at: Location | None = None
    """For a broken expectation whose location is in the program: its line in the
    file of expectations."""

    @property
    def in_a_line(self) -> bool:
        """True if the problem has a line that a reader can be shown."""
        return self.location is not None and self.location.line is not None


def planned(report: Report) -> list[Problem]:
    """Return the changes of the plan that have a line of the user's, best first."""
    found = []
    folder, shown = (
        run_folder(report),
        with_near_paths(replace(report, groups=(), programs=())),
    )
    for number, (kept, change) in enumerate(zip(report.plan, shown.plan), 1):
        position = Source.parse(kept.where)
        if (
            position is None
            or _of_a_package(position.file)
            or change.kind in _OF_A_FINDING
        ):
            continue
        head = f"Do this first ({number} of {len(report.plan)}): {change.change}"
        lines = [unlocks(change), gain(change), proof(change)]
        if change.before is not None and change.after is not None:
            lines += [f"- {change.before}", f"+ {change.after}"]
        where = Location(relative(position.file, folder), position.line)
        text = "\n".join(
            filter(None, [*lines, change.note, change.python, change.command])
        )
        edits = []
        for edit in kept.edits:
            edits.append(replace(edit, file=relative(edit.file, folder)))
        found.append(Problem(PLAN, "note", head, text, where, edits=tuple(edits)))
    return found


_OF_A_FINDING = (ChangeKind.REPAIR, ChangeKind.LOG)
"""Kinds of changes that repeat a finding of their own."""

_KNOWN_PACKAGE = re.compile(rf"{PACKAGES}[/\\]")


def _of_a_package(file: str) -> bool:
    return from_package(file) != file or _KNOWN_PACKAGE.match(file) is not None


def problems(report: Report, suppressed: bool = False) -> list[Problem]:
    """Return broken expectations, findings worst first and, if requested,
    suppressed findings. Environment notes (FD001, FD004), which are in the first
    lines of reports, are excluded."""
    shown = with_near_paths(replace(report, groups=(), programs=()))
    found = []
    for kept, one in zip(report.expectations, shown.expectations):
        if not one.holds:
            found.append(broken_expectation(kept, one, report))
    of_expectations = {one.code for one in report.expectations}
    found += [
        Problem(
            f.code,
            f.severity,
            with_short_positions(f.message),
            f.advice,
            finding_location(kept, report),
        )
        for kept, f in zip(report.findings, shown.findings)
        if not f.in_header and (f.code not in of_expectations or f.ops)
    ]
    if suppressed:
        found += [
            Problem(
                s.code,
                s.severity,
                s.message,
                None,
                finding_location(kept, report),
                s.by,
            )
            for kept, s in zip(report.suppressed, shown.suppressed)
        ]
    return found


def broken_expectation(
    kept: Expectation, shown: Expectation, report: Report
) -> Problem:
    """Return an error at the line of the program that breaks the expectation, if
    that is known and in the user's code; else at its line in the file of
    expectations. ``shown`` is ``kept`` with readable paths."""
    cause, expected = line_of_user(kept.source, report), expectation_location(kept)
    if cause is None:
        return Problem(
            EXPECTATION, "error", expected_and_found(shown), None, expected
        )
    if kept.code is not None:  # the file has no line for this expectation
        return Problem(EXPECTATION, "error", expected_and_found(shown), None, cause)
    more = f"expected in {expected.file}:{expected.line}"
    return Problem(
        EXPECTATION,
        "error",
        expected_and_found(shown),
        more,
        cause,
        expected_at=expected,
    )


def expectation_location(one: Expectation) -> Location:
    """Return the expectation's line in the file of expectations."""
    return Location(relative(one.file), one.line or 1)


def line_of_user(source: str | None, report: Report) -> Location | None:
    """Return a line of the program, if it is in the repository and in no installed
    package."""
    position = Source.parse(source)
    if position is None or not position.has_file or _of_a_package(position.file):
        return None
    file = relative(position.file, run_folder(report))
    if Path(file).is_absolute():
        return None
    return Location(file, position.line)


def finding_location(
    finding: Finding | Suppressed, report: Report
) -> Location | None:
    """Return the user's line, if it is in the repository; else the target's file,
    or the log. None if only the standard input is known."""
    line = line_of_user(finding.source, report)
    if line is not None:
        return line
    target = report.target.name or ""
    if report.target.capture and ".py" in target:
        return _whole(target[: target.rindex(".py") + 3])
    evidence = None
    if isinstance(finding, Finding):
        evidence = next(iter(finding.evidence), None)
    if evidence is None:
        name = report.target.capture or target.split(", ")[0]
        if name and not name.startswith("<"):
            return _whole(name)
        return None
    if evidence.file.startswith("<"):
        return None
    return _whole(evidence.file)


def file_of_target(target: str | None) -> str | None:
    """Return the Python file of a target, in the repository; None for another
    target."""
    name = target or ""
    if ".py" in name:
        return relative(name[: name.rindex(".py") + 3])
    return None


def _whole(path: str) -> Location:
    """Return the file as a whole; a file outside the repository without its
    folders, which mean nothing there."""
    file = relative(path)
    return Location(
        file.rpartition("/")[2] if Path(file).is_absolute() else file, None
    )


def relative(path: str, folder: str = "") -> str:
    """Return the path relative to the top of the repository as the variables of CI
    state it, else to the current folder, else to ``folder``, in which the program
    ran.

    A path outside of them stays as it is.
    """
    base = (
        os.environ.get("GITHUB_WORKSPACE")
        or os.environ.get("CI_PROJECT_DIR")
        or str(Path.cwd())
    )
    full = os.path.normpath(Path.cwd() / path)
    within = None
    for one in (base, folder):
        if one and _inside(full, one):
            within = one
            break
    return (os.path.relpath(full, within) if within is not None else path).replace(
        os.sep, "/"
    )


def _inside(path: str, base: str) -> bool:
    try:
        return os.path.commonpath([path, base]) == os.path.normpath(base)
    except ValueError:  # another drive
        return False


def fingerprints(problems: Sequence[Problem]) -> list[str]:
    """Return a fingerprint for each problem, all different. It is made of code,
    file and message without numbers, not of the line: code that moves keeps its
    findings. Equal ones are numbered in order."""
    repeats, found = NameCounts(), []
    for problem in problems:
        file = problem.location.file if problem.location else ""
        text = "\0".join((problem.code, file, without_figures(problem.message)))
        numbered = f"{text}\0{repeats.number(text)}"
        found.append(
            hashlib.sha256(numbered.encode("utf-8", "replace")).hexdigest()
        )
    return found


MOST = 10
"""GitHub shows ten annotations of each kind for a step and drops the rest."""

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def github(report: Report) -> str:
    """Return a line for each change of the plan and each problem that has a line of
    the user's, at most ten of a kind; then a line on the problems without one, and
    a line on those left out. Empty without any."""
    lines = []
    left_out = 0
    shown = dict.fromkeys(_COMMANDS, 0)
    every = [*planned(report), *problems(report)]
    without = [problem for problem in every if not problem.in_a_line]
    # Some of the ten are kept for the two lines at the end.
    most = dict.fromkeys(_COMMANDS, MOST - 1)
    most["note"] -= 1
    for problem in every:
        if not problem.in_a_line:
            continue
        line = _line(problem)
        if line in lines:
            continue  # differs in its column only, which annotations do not show
        if shown.get(problem.severity, 0) >= most.get(problem.severity, 0):
            left_out += 1
            continue
        shown[problem.severity] += 1
        lines.append(line)
    if without:
        lines.append(_line(_summed_up(without)))
    if left_out:
        lines.append(
            f"::notice title=fusiondoc::{left_out} more, which GitHub would not show: see the report"
        )
    return "".join(line + "\n" for line in lines)


def github_of_models(reports: Sequence[Report]) -> str:
    """Return a line for each broken expectation of several models, at the line of
    the program that breaks it if that is known, else in the file of expectations:
    as many as GitHub shows for a step."""
    lines: dict[str, None] = {}
    for report in reports:
        for problem in problems(replace(report, findings=())):
            lines[_line(problem)] = None
    shown = list(lines)[:MOST]
    return "".join(line + "\n" for line in shown)


_MOST_SUMMED = 8


def _summed_up(without: Sequence[Problem]) -> Problem:
    """Return one problem for all problems without a line, with the worst of their
    severities."""
    if len(without) == 1:
        return without[0]._replace(location=None)
    lines = [f"{one.code}: {one.message}" for one in without[:_MOST_SUMMED]]
    if len(without) > _MOST_SUMMED:
        lines.append(f"and {len(without) - _MOST_SUMMED} more")
    order = {severity: nth for nth, severity in enumerate(_COMMANDS)}
    worst = min(
        (one.severity for one in without),
        key=lambda severity: order.get(severity, len(order)),
    )
    text = f"{len(without)} findings that are of no line"
    return Problem("summary", worst, text, "\n".join(lines), None)


def _line(problem: Problem) -> str:
    parts = []
    if problem.location is not None and problem.in_a_line:
        parts = [
            f"file={_property(problem.location.file)}",
            f"line={problem.location.line}",
        ]
    parts.append(f"title={_property('fusiondoc ' + problem.code)}")
    text = problem.message + (f"\n{problem.advice}" if problem.advice else "")
    return f"::{_COMMANDS.get(problem.severity, 'notice')} {','.join(parts)}::{_data(text)}"


def _data(text: str) -> str:
    return (
        visible(text.replace("\r\n", "\n")).replace("%", "%25").replace("\n", "%0A")
    )


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_MOST_ROWS = 50


def append_github_summary(text: str, file: str | None) -> None:
    """Append the summary; an error in writing the file is ignored, as it is no
    reason to fail."""
    if not file:
        return
    try:
        with Path(file).open(
            "a", encoding="utf-8", errors="backslashreplace"
        ) as stream:
            stream.write(text)
    except OSError:
        return


def github_summary(report: Report) -> str:
    """Return how much was fused, in one line, and a table of the problems."""
    found = problems(report)
    report = with_near_paths(report)
    share = covered(report, short_percent)
    each = each_rank(report)
    if each is not None:
        whose, one = f"{each.whose}: ", each.report
    else:
        whose, one = "", report
    loose = sum(row.count for row in outside(one))
    sentence = f"{whose}{count(one.fused_operators, 'operator')} in {groups_of(one)}, {loose} operators outside"
    if not report.groups:
        sentence = f"No fusion group, {count(loose, 'tensor operator')} outside"
    if share is not None:
        sentence += f" ({share})"
    fallbacks = report.times_fallen_back
    if fallbacks:
        sentence += f", {fallbacks} fallbacks"
    lines = [
        f"### fusiondoc: {markdown(report.target.name or 'report')}",
        "",
        markdown(sentence) + ".",
    ]
    if report.expectations:
        broken = sum(not one.holds for one in report.expectations)
        lines += [
            "",
            f"{len(report.expectations) - broken} of {len(report.expectations)} expectations hold.",
        ]
    if report.plan or report.plan_note:
        lines += ["", *plan_in_markdown(report)]
    if found:
        lines += [
            "",
            "| | code | where | what |",
            "|---|---|---|---|",
            *map(_row, found[:_MOST_ROWS]),
        ]
    if len(found) > _MOST_ROWS:
        lines += ["", f"and {len(found) - _MOST_ROWS} more"]
    if report.suppressed:
        lines += ["", f"{len(report.suppressed)} findings suppressed."]
    return "\n".join(lines) + "\n\n"


def _row(problem: Problem) -> str:
    position = ""
    if problem.location is not None:
        line = problem.location.line
        position = problem.location.file + (f":{line}" if line is not None else "")
    cells = (problem.severity, problem.code, position, problem.message)
    return f"| {' | '.join(map(markdown, cells))} |"


SEVERITY = {"error": "critical", "warning": "major", "note": "info"}


def gitlab(report: Report) -> str:
    """Return the report in GitLab's format. Problems without a line are summed up
    at the first line of a file, because GitLab requires one; problems without any
    file are left out."""
    return _code_quality([*planned(report), *problems(report)])


def gitlab_of_models(checked: CheckedModels) -> str:
    """Return the problems of ``problems_of_models`` in GitLab's format; a message
    begins with the model, since models share files."""
    return _code_quality(problems_of_models(checked))


def problems_of_models(checked: CheckedModels) -> list[Problem]:
    """Return the broken expectations of many models, each at the line that breaks
    it, and an error for each model that could not be run at its file; the findings
    of each model are in its own report."""
    found = []
    for model in checked.models:
        if model.report is not None:
            for one in problems(model.report):
                if one.code == EXPECTATION:
                    message = f"{model.section}: {one.message}"
                    found.append(one._replace(message=message))
        elif model.outcome is CheckOutcome.FAILED:
            file = file_of_target(model.target)
            where = Location(file, None) if file is not None else None
            message = f"{model.section} could not be checked: {model.why}"
            found.append(Problem("run", "error", message, model.hint, where))
    return found


def _code_quality(every: Sequence[Problem]) -> str:
    placed = [problem for problem in every if problem.in_a_line]
    without = []
    for problem in every:
        if problem.location is not None and not problem.in_a_line:
            without.append(problem)
    if without:
        file = without[0].location.file if without[0].location is not None else ""
        placed.append(_summed_up(without)._replace(location=Location(file, 1)))
    issues = []
    for problem, print_ in zip(placed, fingerprints(placed)):
        if problem.location is not None:
            issues.append(
                {
                    "type": "issue",
                    "check_name": problem.code,
                    "description": problem.message
                    if problem.code != "summary"
                    else f"{problem.message}: {problem.advice}",
                    "categories": ["Performance"],
                    "severity": SEVERITY.get(problem.severity, "info"),
                    "fingerprint": print_,
                    "location": {
                        "path": problem.location.file,
                        "lines": {"begin": problem.location.line},
                    },
                }
            )
    return in_json(json.dumps(issues, indent=2, ensure_ascii=False)) + "\n"
