"""SARIF 2.1.0 (OASIS) for code scanning: one run, a rule for each code that occurs, the user's lines.

The changes of the plan come first; their ``fixes`` hold the lines as they are to be. What has no line of the
user's is of the file as a whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fusiondoc.model.codes import CODES
from fusiondoc.model.report import Report
from fusiondoc.reports.code_annotations import (
    PLAN,
    Location,
    Problem,
    fingerprints,
    planned,
    problems,
    relative,
)
from fusiondoc.reports.printable import in_json
from fusiondoc.reports.step_words import unlocks
from fusiondoc.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(report: Report) -> str:
    """The report as SARIF text, the plan first. Suppressed findings are in it, marked as such."""
    found = [*planned(report), *problems(report, suppressed=True)]
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
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    if report.plan or report.plan_note:
        said = [f"{change.change}: {unlocks(change)}" for change in report.plan] or [str(report.plan_note)]
        run["properties"] = {"plan": said}
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return in_json(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


def _rule(code: str) -> dict[str, Any]:
    known = CODES.get(code)
    title = known.title if known else "A fusion expectation is broken"
    level = known.severity if known else "error"
    more = f"fusiondoc explain {code}" if known else "The expectation is in the file given with --expect."
    if code == PLAN:
        title, level, more = "What to change first", "note", "fusiondoc fix TARGET tries such changes."
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
    if problem.edits:
        result["fixes"] = [_fix(problem)]
    if problem.suppressed_by is not None:
        kind = "inSource" if problem.suppressed_by.startswith("comment") else "external"
        result["suppressions"] = [{"kind": kind, "justification": problem.suppressed_by}]
    return result


def _fix(problem: Problem) -> dict[str, Any]:
    """The lines of a change, whole, file by file."""
    files: dict[str, list[dict[str, Any]]] = {}
    for edit in problem.edits:
        region = {
            "startLine": edit.line,
            "startColumn": 1,
            "endLine": edit.line,
            "endColumn": len(edit.before) + 1,
        }
        replacement = {"deletedRegion": region, "insertedContent": {"text": edit.after}}
        files.setdefault(relative(edit.file), []).append(replacement)
    changes = [
        {"artifactLocation": _artifact(file), "replacements": replacements}
        for file, replacements in files.items()
    ]
    return {"description": {"text": problem.message}, "artifactChanges": changes}


def _artifact(file: str) -> dict[str, Any]:
    outside = Path(file).is_absolute()
    uri = ("file://" if outside else "") + quote(file, errors="replace")
    return {"uri": uri} if outside else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _location(place: Location) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file)}
    if place.line is not None:
        physical["region"] = {"startLine": place.line}
    return {"physicalLocation": physical}
