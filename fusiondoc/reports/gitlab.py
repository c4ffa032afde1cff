"""GitLab's code quality report: a JSON list of issues in the format of Code Climate.

The keys are those that docs.gitlab.com (CI/CD, Code Quality, "Code Quality report format") requires.
"""

from __future__ import annotations

import json

from fusiondoc.model.report import Report
from fusiondoc.reports.locations import fingerprints, problems
from fusiondoc.reports.printable import in_json

SEVERITY = {"error": "critical", "warning": "major", "note": "info"}


def render(report: Report) -> str:
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
