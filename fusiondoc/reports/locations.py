"""Where a finding is shown by tools that want a file and a line of the repository."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple, Sequence

from fusiondoc.model.report import Expectation, Finding, Report, Suppressed
from fusiondoc.model.source import Source
from fusiondoc.reports.text.expectation_lines import sentence

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
