"""Findings and fallbacks that only one side has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Mapping

from fusiondoc.alignment import pair_equal
from fusiondoc.comparison.differences import FallbackChange, FindingChange
from fusiondoc.comparison.places import Place, Places
from fusiondoc.comparison.unfused_changes import lacks_plans
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import SEVERITIES, Fallback, Finding, Report

_CHANGING = re.compile(r"\d+(?:[.,]\d+)*")
_TIMES = re.compile(r" \(# times\)")
_IDS = re.compile(r"[GK]#(?:(?:, | and | to )[GK]#)*(?: and # more)?")
_SOURCES = re.compile(r"[^\s()]+:\d+(?::\d+)?")


@dataclass(frozen=True, eq=False)
class _Found:
    finding: Finding
    place: Place
    words: str
    """The message without numbers and places."""

    @property
    def fixed(self) -> bool:
        return self.place.aligned and not self.place.weak


def finding_changes(a: Report, b: Report, places: Places) -> tuple[FindingChange, ...]:
    """What came, worst first, then what is gone."""
    sides = [
        [_Found(f, places.of(side, f.source), _words(f)) for f in report.findings]
        for side, report in enumerate((a, b))
    ]
    kept = [list(side) for side in sides]
    left_a, left_b = sides
    for key in (
        lambda f: (f.finding.code, f.place.token, f.words),
        lambda f: (f.finding.code, f.place.token) if f.fixed else None,
        lambda f: None if f.fixed else (f.finding.code, f.words),
        lambda f: f.finding.code if _of_the_run(f.finding) else None,
    ):
        pair_equal(left_a, left_b, key)
    # One finding stands for many rows of an operator, and what has no line of its own is not counted.
    everywhere = [{(f.finding.code, f.words) for f in side if not f.fixed} for side in kept]
    left_a = [f for f in left_a if f.fixed or (f.finding.code, f.words) not in everywhere[1]]
    left_b = [f for f in left_b if f.fixed or (f.finding.code, f.words) not in everywhere[0]]
    # A log without every plan says nothing of the operators outside them.
    left_a = [f for f in left_a if not (lacks_plans(b, a) and _of_an_operator(f.finding))]
    left_b = [f for f in left_b if not (lacks_plans(a, b) and _of_an_operator(f.finding))]
    changes = [("came", f.finding) for f in left_b] + [("gone", f.finding) for f in left_a]
    changes.sort(key=lambda row: (row[0] == "gone", SEVERITIES.index(row[1].severity)))
    return tuple(FindingChange(change, finding) for change, finding in changes)


def _of_the_run(finding: Finding) -> bool:
    code = CODES.get(finding.code)  # a saved report of a later version can have others
    return code is not None and code.of_the_run


def _of_an_operator(finding: Finding) -> bool:
    return finding.code.startswith("FD2")


def _words(finding: Finding) -> str:
    text = _CHANGING.sub("#", _SOURCES.sub("", finding.message))
    return _IDS.sub("ids", _TIMES.sub("", text))


def fallback_changes(a: Report, b: Report, same_groups: Mapping[str, str]) -> tuple[FallbackChange, ...]:
    """Fallbacks by stage and group.

    Args:
        same_groups: id of a group of A -> id of the group of B that it is.
    """
    left_a, left_b = list(a.fallbacks), list(b.fallbacks)
    of_b = {id(row) for row in left_b}

    def group(row: Fallback) -> str | None:
        if row.group is None or id(row) in of_b:
            return row.group
        return same_groups.get(row.group, "A " + row.group)

    pairs = pair_equal(left_a, left_b, lambda row: (row.stage, group(row), row.error))
    pairs += pair_equal(left_a, left_b, lambda row: (row.stage, group(row)))
    changes = [
        _fallback("count", one, other)
        for one, other in pairs
        if one.count_exact and other.count_exact and one.count != other.count
    ]
    changes += [_fallback("came", None, row) for row in left_b]
    changes += [_fallback("gone", row, None) for row in left_a]
    return tuple(changes)


def _fallback(change: str, a: Fallback | None, b: Fallback | None) -> FallbackChange:
    row = b or a
    assert row is not None
    return FallbackChange(
        change,
        row.stage,
        a.group if a else None,
        b.group if b else None,
        a.count if a else None,
        b.count if b else None,
        row.error,
        next(iter(row.evidence), None),
    )
