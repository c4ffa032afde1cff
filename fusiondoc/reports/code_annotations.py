"""Findings at their lines of the repository, as tools of a code host take them: annotations of GitHub
Actions, GitLab's code quality report, and SARIF 2.1.0 (OASIS) for code scanning.

GitHub: workflow commands such as ``::warning file=model.py,line=31::message``; escaping is that of the
runner's own toolkit (actions/toolkit, packages/core/src/command.ts). GitLab: a JSON list of issues in the
format of Code Climate; the keys are those that docs.gitlab.com (CI/CD, Code Quality, "Code Quality report
format") requires. SARIF: one run, a rule for each code that occurs, the user's lines.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple, Sequence
from urllib.parse import quote

from fusiondoc.model.codes import CODES
from fusiondoc.model.module_tree import outside
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import Expectation, Suppressed
from fusiondoc.model.source import Source
from fusiondoc.reports.printable import in_json, markdown, visible
from fusiondoc.reports.text.expectation_lines import sentence
from fusiondoc.reports.wording import covered
from fusiondoc.version import __version__

EXPECTATION = "expectation"
"""What machine formats call the rule behind a broken expectation."""


class Location(NamedTuple):
    """A line of a file; ``file`` is relative to the repository where it lies in it, with forward slashes."""

    file: str
    line: int


class Problem(NamedTuple):
    """A finding, or an expectation that is broken, as machine formats take them."""

    code: str
    severity: str
    message: str
    advice: str | None
    location: Location | None
    suppressed_by: str | None = None


def problems(report: Report, suppressed: bool = False) -> list[Problem]:
    """Broken expectations, findings worst first and, if asked for, suppressed findings."""
    found = [
        Problem(EXPECTATION, "error", sentence(one), None, expectation_location(one))
        for one in report.expectations
        if not one.holds
    ]
    found += [
        Problem(f.code, f.severity, f.message, f.advice, finding_location(f, report)) for f in report.findings
    ]
    if suppressed:
        found += [
            Problem(s.code, s.severity, s.message, None, finding_location(s, report), s.by)
            for s in report.suppressed
        ]
    return found


def expectation_location(one: Expectation) -> Location | None:
    """Its line in the file of expectations."""
    return Location(relative(one.file), one.line or 1)


def finding_location(finding: Finding | Suppressed, report: Report) -> Location | None:
    """The user's line; without one the first line of the target's file; of a log the line that proves it, or
    its first one. None where all that is known is the standard input."""
    place = Source.parse(finding.source)
    if place is not None and place.has_file:
        return Location(relative(place.file), place.line)
    target = str(report.target.get("name") or "")
    if report.target.get("capture") and ".py" in target:
        return Location(relative(target[: target.rindex(".py") + 3]), 1)
    evidence = next(iter(finding.evidence), None) if isinstance(finding, Finding) else None
    if evidence is None:
        name = str(report.target.get("capture") or target.split(", ")[0])
        return Location(relative(name), 1) if name and not name.startswith("<") else None
    return Location(relative(evidence.file), evidence.line) if not evidence.file.startswith("<") else None


def relative(path: str) -> str:
    """The path from the top of the repository as CI tells it, else from the current folder.

    A path outside of it stays as it is.
    """
    base = os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR") or str(Path.cwd())
    full = os.path.normpath(Path.cwd() / path)
    shown = os.path.relpath(full, base) if _inside(full, base) else path
    return shown.replace(os.sep, "/")


def _inside(path: str, base: str) -> bool:
    try:
        return os.path.commonpath([path, base]) == os.path.normpath(base)
    except ValueError:  # another drive
        return False


def fingerprints(problems: Sequence[Problem]) -> list[str]:
    """One for each, all different. Made of code, file and message without numbers, not of the line: code that
    moves keeps its findings. Equal ones are numbered in order."""
    seen: dict[str, int] = {}
    found = []
    for problem in problems:
        file = problem.location.file if problem.location else ""
        text = "\0".join((problem.code, file, re.sub(r"\d+", "0", problem.message)))
        seen[text] = seen.get(text, 0) + 1
        found.append(hashlib.sha256(f"{text}\0{seen[text]}".encode("utf-8", "replace")).hexdigest())
    return found


MOST = 10
"""GitHub shows ten annotations of each kind for a step and drops the rest."""

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def github(report: Report) -> str:
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


def append_github_summary(report: Report, file: str | None) -> None:
    """Append the summary; a file that cannot be written is not worth failing for."""
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(github_summary(report))
    except OSError:
        return


def github_summary(report: Report) -> str:
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


SEVERITY = {"error": "critical", "warning": "major", "note": "info"}


def gitlab(report: Report) -> str:
    """The report; what has no file at all is left out, because GitLab needs one."""
    found = [(problem, problem.location) for problem in problems(report)]
    placed = [(problem, place) for problem, place in found if place is not None]
    issues = [
        {
            "type": "issue",
            "check_name": problem.code,
            "description": problem.message,
            "categories": ["Performance"],
            "severity": SEVERITY.get(problem.severity, "info"),
            "fingerprint": print_,
            "location": {"path": place.file, "lines": {"begin": place.line}},
        }
        for (problem, place), print_ in zip(placed, fingerprints([problem for problem, _ in placed]))
    ]
    return in_json(json.dumps(issues, indent=2, ensure_ascii=False)) + "\n"


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: Report) -> str:
    """The report as SARIF text. Suppressed findings are in it, marked as such."""
    found = problems(report, suppressed=True)
    codes = sorted({problem.code for problem in found})
    results = [
        _result(problem, codes.index(problem.code), print_)
        for problem, print_ in zip(found, fingerprints(found))
    ]
    driver = {
        "name": "fusiondoc",
        "semanticVersion": __version__,
        "rules": [_rule(code) for code in codes],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return in_json(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


def _rule(code: str) -> dict[str, Any]:
    known = CODES.get(code)
    title = known.title if known else "A fusion expectation is broken"
    level = known.severity if known else "error"
    more = f"fusiondoc explain {code}" if known else "The expectation is in the file given with --expect."
    return {
        "id": code,
        "shortDescription": {"text": title},
        "help": {"text": more},
        "defaultConfiguration": {"level": level},
    }


def _result(problem: Problem, rule: int, fingerprint: str) -> dict[str, Any]:
    text = problem.message + (f"\n{problem.advice}" if problem.advice else "")
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": problem.severity,
        "message": {"text": text},
        "locations": [_location(problem.location)] if problem.location else [],
        "partialFingerprints": {"fusiondoc/v1": fingerprint},
    }
    if problem.suppressed_by is not None:
        kind = "inSource" if problem.suppressed_by.startswith("comment") else "external"
        result["suppressions"] = [{"kind": kind, "justification": problem.suppressed_by}]
    return result


def _location(place: Location) -> dict[str, Any]:
    outside = Path(place.file).is_absolute()
    uri = ("file://" if outside else "") + quote(place.file, errors="replace")
    artifact = {"uri": uri} if outside else {"uri": uri, "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": place.line}}}
