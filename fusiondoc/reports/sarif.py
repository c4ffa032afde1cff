"""SARIF 2.1.0 (OASIS), for code scanning: one run, a rule for each code that occurs, the user's lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fusiondoc.model.codes import CODES
from fusiondoc.model.report import Report
from fusiondoc.reports.locations import Location, Problem, fingerprints, problems
from fusiondoc.reports.printable import in_json
from fusiondoc.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(report: Report) -> str:
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
