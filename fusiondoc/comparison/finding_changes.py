"""Findings and fallbacks that only one side has."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.alignment import pair_equal
from fusiondoc.comparison import FallbackChange, FindingChange
from fusiondoc.comparison.by_lines import of_two_compilers
from fusiondoc.comparison.finding_subjects import Subject, Subjects
from fusiondoc.comparison.positions import Position, Positions
from fusiondoc.comparison.unfused_changes import lacks_plans
from fusiondoc.model import dataclass
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import SEVERITIES, Fallback, Finding, Report


@dataclass(frozen=True, eq=False)
class _Found:
    finding: Finding
    position: Position
    subject: Subject

    @property
    def fixed(self) -> bool:
        return self.position.aligned and not self.position.weak


_SAME: tuple[Callable[[_Found], Hashable | None], ...] = (
    lambda f: (f.position.token, f.subject),
    lambda f: (f.finding.code, f.position.token) if f.fixed else None,
    lambda f: None if f.fixed else f.subject,
    lambda f: f.finding.code if _of_the_run(f.finding) else None,
)
"""Keys by which two findings are the same, from line and subject down to the code
alone."""


def finding_changes(
    a: Report, b: Report, positions: Positions
) -> tuple[FindingChange, ...]:
    """Return the new findings, worst first, then those that are gone. Between two
    compilers only errors are compared: other findings of one compiler have no
    counterpart in the other."""
    left_a, left_b = _found(a, 0, positions), _found(b, 1, positions)
    of_a, of_b = _without_line(left_a), _without_line(left_b)
    for key in _SAME:
        pair_equal(left_a, left_b, key)
    came = _new(left_b, of_a, lacks_plans(a, b))
    gone = _new(left_a, of_b, lacks_plans(b, a))
    if of_two_compilers(a, b):
        came, gone = (
            [one for one in found if one.severity == SEVERITIES[0]]
            for found in (came, gone)
        )
    return (
        *(FindingChange("came", finding) for finding in came),
        *(FindingChange("gone", finding) for finding in gone),
    )


def _found(report: Report, side: int, positions: Positions) -> list[_Found]:
    subjects = Subjects(report)
    findings = []
    for finding in report.findings:
        findings.append(
            _Found(
                finding, positions.of(side, finding.source), subjects.of(finding)
            )
        )
    return findings


def _without_line(found: Sequence[_Found]) -> set[Subject]:
    """The subjects of findings without a line of their own: such a finding covers
    many rows of an operator."""
    subjects = set()
    for known in found:
        if not known.fixed:
            subjects.add(known.subject)
    return subjects


def _new(
    left: Sequence[_Found], of_others: AbstractSet[Subject], is_blind: bool
) -> list[Finding]:
    """The findings that the other side does not have, worst first.

    Args: of_others: subjects of findings of that side without a line of their own,
        which are not counted. is_blind: that side lacks plans, so that operators
        outside them are not known.
    """
    new = []
    for left_finding in left:
        known = not left_finding.fixed and left_finding.subject in of_others
        if not known and not (is_blind and _of_an_operator(left_finding.finding)):
            new.append(left_finding.finding)
    return sorted(new, key=lambda finding: SEVERITIES.index(finding.severity))


def _of_the_run(finding: Finding) -> bool:
    code = CODES.get(
        finding.code
    )  # a saved report of a later version can have others
    return code is not None and code.of_the_run


def _of_an_operator(finding: Finding) -> bool:
    return finding.code.startswith("FD2")


def fallback_changes(
    a: Report, b: Report, same_groups: Mapping[str, str]
) -> tuple[FallbackChange, ...]:
    """Changes of fallbacks, matched by stage and group. Args: same_groups: id of a
    group of A -> id of the same group in B.
    """
    left_a, left_b = list(a.fallbacks), list(b.fallbacks)
    of_b = {id(row) for row in left_b}

    def group(row: Fallback) -> str | None:
        if row.group is None or id(row) in of_b:
            return row.group
        return same_groups.get(row.group, "A " + row.group)

    pairs = pair_equal(
        left_a, left_b, lambda row: (row.stage, group(row), row.error)
    )
    pairs += pair_equal(left_a, left_b, lambda row: (row.stage, group(row)))
    changes = []
    for before, other in pairs:
        if before.count_exact and other.count_exact and before.count != other.count:
            changes.append(_fallback("count", before, other))
    changes += [_fallback("came", None, row) for row in left_b]
    changes += [_fallback("gone", row, None) for row in left_a]
    return tuple(changes)


def _fallback(
    change: str, a: Fallback | None, b: Fallback | None
) -> FallbackChange:
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
