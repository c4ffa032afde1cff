"""SARIF 2.1.0 (OASIS) for code scanning: one run, a rule for each code that occurs,
the user's lines.

The changes of the plan come first; their ``fixes`` hold the changed lines. A reader
may apply one of them or all, so no two of them edit the same line: if two changes
do, the first has the lines of both. Problems without a line of the user's are at
the file as a whole.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fusiondoc.model.change_plan import Edit
from fusiondoc.model.checked_models import CheckedModels
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import Report
from fusiondoc.rendering.printable import in_json
from fusiondoc.reports.code_annotations import (
    PLAN,
    Location,
    Problem,
    fingerprints,
    planned,
    problems,
    problems_of_models,
)
from fusiondoc.version import __version__
from fusiondoc.views.plan_words import no_plan, unlocks

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(report: Report) -> str:
    """Return the report as SARIF text, the plan first. Suppressed findings are in
    it, marked as such."""
    found = [*apart(planned(report)), *problems(report, suppressed=True)]
    run = _run(found)
    if report.plan or report.plan_note:
        nothing = [
            f"{no_plan(report)}: {report.plan_note}",
            *filter(None, [report.plan_try]),
        ]
        sentences = [
            f"{change.change}: {unlocks(change)}" for change in report.plan
        ] or nothing
        run["properties"] = {"plan": sentences}
    return _log(run)


def of_models(checked: CheckedModels) -> str:
    """Return the broken expectations of many models, each at the line that breaks
    it, and an error for each model that could not be run at its file; the findings
    of each model are in its own report."""
    return _log(_run(problems_of_models(checked)))


def _run(found: Sequence[Problem]) -> dict[str, Any]:
    codes = sorted({problem.code for problem in found})
    results = []
    for problem, print_ in zip(found, fingerprints(found)):
        results.append(_result(problem, codes.index(problem.code), print_))
    driver = {
        "name": "fusiondoc",
        "semanticVersion": __version__,
        "rules": [_rule(code) for code in codes],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return run


def _log(run: dict[str, Any]) -> str:
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return in_json(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


_TITLES = {"run": "A model could not be run"}


def _rule(code: str) -> dict[str, Any]:
    known = CODES.get(code)
    if known:
        title = known.title
    else:
        title = _TITLES.get(code, "A fusion expectation is broken")
    level = known.severity if known else "error"
    if known:
        more = f"fusiondoc explain {code}"
    else:
        more = "The expectation is in the file given with --expect."
    if code == PLAN:
        title, level, more = (
            "What to change first",
            "note",
            "fusiondoc fix TARGET tries such changes.",
        )
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
    if problem.expected_at is not None:
        related = _location(problem.expected_at)
        result["relatedLocations"] = [
            {**related, "message": {"text": "The expectation"}}
        ]
    if problem.edits:
        result["fixes"] = [_fix(problem)]
    if problem.suppressed_by is not None:
        if problem.suppressed_by.startswith("comment"):
            kind = "inSource"
        else:
            kind = "external"
        result["suppressions"] = [
            {"kind": kind, "justification": problem.suppressed_by}
        ]
    return result


def apart(changes: Sequence[Problem]) -> list[Problem]:
    """Return the changes such that no two of them edit the same line: the edits of
    the later one are added to the earlier one, if both can be made, else left out;
    its text states this."""
    found: list[Problem] = []
    for change in changes:
        lines = {(edit.file, edit.line) for edit in change.edits}
        shared = [index for index, one in enumerate(found)
                  if any((edit.file, edit.line) in lines for edit in one.edits)]  # fmt: skip
        if not shared:
            found.append(change)
            continue
        first = shared[0]
        both = None
        if len(shared) == 1:
            both = together(found[first].edits, change.edits)
        name = f"({first + 1} of {len(changes)})"
        if both is not None:
            found[first] = found[first]._replace(edits=both)
            note = f"The fix of {name} changes these lines too."
        else:
            note = f"It changes lines that {name} changes: do that one first."
        found.append(
            change._replace(
                edits=(), advice="\n".join(filter(None, [change.advice, note]))
            )
        )
    return found


def together(
    first: Sequence[Edit], second: Sequence[Edit]
) -> tuple[Edit, ...] | None:
    """Return two changes as one; None if they change the same part of a line."""
    made = {(edit.file, edit.line): edit for edit in first}
    for edit in sorted(
        second, key=lambda edit: edit.after == ""
    ):  # the edit that inserts a moved line comes before the one that removes it
        other = made.get((edit.file, edit.line))
        if other is None:
            made[edit.file, edit.line] = edit
        elif "" in (edit.after, other.after):
            gone, kept = (edit, other) if edit.after == "" else (other, edit)
            moved = []
            for key, one in made.items():
                if gone.before in one.after.split("\n"):
                    moved.append(key)
            moved = [key for key in moved if key != (gone.file, gone.line)]
            if kept.after != "" and len(moved) != 1:
                return None
            made[gone.file, gone.line] = gone
            for key in moved if kept.after != "" else ():
                rows = made[key].after.split("\n")
                rows[rows.index(gone.before)] = kept.after
                made[key] = replace(made[key], after="\n".join(rows))
        else:
            after = _merged(edit.before, other.after, edit.after)
            if after is None:
                return None
            made[edit.file, edit.line] = replace(edit, after=after)
    return tuple(made.values())


def _merged(before: str, first: str, second: str) -> str | None:
    """Return a line with both changes; None if they change the same words."""
    words = re.findall(r"\w+|\s+|.", before)
    changes: list[tuple[int, int, str]] = []
    for after in (first, second):
        others = re.findall(r"\w+|\s+|.", after)
        for what, start, end, a, b in SequenceMatcher(
            None, words, others, autojunk=False
        ).get_opcodes():
            if what != "equal":
                changes.append((start, end, "".join(others[a:b])))
    changes = sorted(dict.fromkeys(changes))
    if any(
        one[1] > other[0] or one[0] == other[0]
        for one, other in itertools.pairwise(changes)
    ):
        return None
    for start, end, text in reversed(changes):
        words[start:end] = [text]
    return "".join(words)


def _fix(problem: Problem) -> dict[str, Any]:
    """Return the fix with the changed lines, whole, file by file."""
    files: dict[str, list[dict[str, Any]]] = {}
    for edit in sorted(problem.edits, key=lambda edit: (edit.file, edit.line)):
        gone = (
            edit.after == ""
        )  # with its line end: a moved line leaves no empty line
        region = {
            "startLine": edit.line,
            "startColumn": 1,
            "endLine": edit.line + gone,
            "endColumn": 1 if gone else len(edit.before) + 1,
        }
        replacement = {
            "deletedRegion": region,
            "insertedContent": {"text": edit.after},
        }
        files.setdefault(edit.file, []).append(replacement)
    changes = []
    for file, replacements in files.items():
        changes.append(
            {"artifactLocation": _artifact(file), "replacements": replacements}
        )
    return {"description": {"text": problem.message}, "artifactChanges": changes}


def _artifact(file: str) -> dict[str, Any]:
    outside = Path(file).is_absolute()
    uri = ("file://" if outside else "") + quote(file, errors="replace")
    if outside:
        return {"uri": uri}
    return {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _location(location: Location) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(location.file)}
    if location.line is not None:
        physical["region"] = {"startLine": location.line}
    return {"physicalLocation": physical}
