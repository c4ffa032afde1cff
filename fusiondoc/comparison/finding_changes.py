"""Findings and fallbacks that only one side has, and operators that are newly outside every group, no
longer so, or outside for another reason."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import Callable, Hashable, Mapping, Sequence

from fusiondoc.alignment import pair_equal
from fusiondoc.comparison import FallbackChange, FindingChange, UnfusedChange
from fusiondoc.comparison.places import Place, Places
from fusiondoc.model.codes import CODES
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import SEVERITIES, Fallback, Finding, Report, Unfused


@dataclass
class _Row:
    row: Unfused
    place: Place
    user: Place
    left: int
    """Nodes of it that are not matched yet."""

    absorbed: bool = False

    @property
    def kind(self) -> Hashable:
        return (self.row.op, self.row.phase, self.row.reason.code)

    @property
    def operator(self) -> Hashable:
        return (self.row.op, self.place.token)

    @property
    def sourceless(self) -> bool:
        return self.row.source is None

    @property
    def movable(self) -> bool:
        """Nothing says that it stays where it was: no source, a formula, or a line of one side."""
        return self.place.weak or not self.place.aligned


_KEYS: tuple[Callable[[_Row], Hashable | None], ...] = (
    # The same operator at the same place for the same reason.
    lambda r: (r.row.rank, r.row.op, r.place.token, r.user.token, r.row.phase, r.row.reason.code),
    lambda r: (r.row.op, r.place.token, r.row.phase, r.row.reason.code),
    lambda r: (r.row.op, r.place.token, r.row.reason.code),
)

_MOVED: tuple[Callable[[_Row], Hashable | None], ...] = (lambda r: r.kind if r.movable else None,)
"""For code that moved."""

_OTHER_REASON: tuple[Callable[[_Row], Hashable | None], ...] = (
    lambda r: (r.row.op, r.place.token, r.row.phase),
    lambda r: (r.row.op, r.row.phase) if r.movable else None,
)
"""For rows whose reason differs."""


def unfused_changes(a: Report, b: Report, places: Places) -> tuple[UnfusedChange, ...]:
    """What changed, in the order of B, then what is gone. What never ran neither comes nor goes. Where a log
    lacks plans, it cannot be told whether what only the other one shows was in a group."""
    rows = [
        [
            _Row(row, places.of(side, row.source), places.of(side, row.user_source), row.count)
            for row in r.unfused
        ]
        for side, r in enumerate((a, b))
    ]
    for key in _KEYS:
        _settle(rows[0], rows[1], key, lambda one, other, count: None)
    _settle_sourceless(rows[0], rows[1])
    for key in _MOVED:
        _settle(rows[0], rows[1], key, lambda one, other, count: None)
    changes: list[tuple[int, UnfusedChange]] = []
    order = {id(row): index for index, row in enumerate(rows[1])}

    def reason(one: _Row, other: _Row, count: int) -> None:
        if False in (one.row.ran, other.row.ran):
            return  # it runs now, or no longer: it is not fused all the same
        changes.append((order[id(other)], _change("reason", one.row, other.row, count)))

    for key in _OTHER_REASON:
        _settle(rows[0], rows[1], key, reason)
    blind = lacks_plans(a, b), lacks_plans(b, a)
    seen = [_fused(report, side, places) for side, report in enumerate((a, b))]
    for row in rows[1]:
        if row.left and row.row.ran is not False and (not blind[0] or row.operator in seen[0]):
            changes.append((order[id(row)], _change("came", None, row.row, row.left)))
    for row in rows[0]:
        if row.left and row.row.ran is not False and (not blind[1] or row.operator in seen[1]):
            changes.append((len(order), _change("gone", row.row, None, row.left)))
    return tuple(change for _, change in sorted(changes, key=lambda item: item[0]))


def lacks_plans(one: Report, other: Report) -> bool:
    """Whether a log lacks plans that the other one may have: what it does not show outside its groups may
    have been there all the same."""
    return other.coverage.told and not one.coverage.told


def _fused(report: Report, side: int, places: Places) -> set[Hashable]:
    """The operators in groups, with their places."""
    return {(node.op, places.of(side, node.source).token) for group in report.groups for node in group.nodes}


def _settle_sourceless(a: Sequence[_Row], b: Sequence[_Row]) -> None:
    """A row without a source stands for all of its operator and reason on the other side: some versions of
    torch lose sources, and a count is that of one plan while such a row gathers several plans."""
    kinds: dict[Hashable, tuple[list[_Row], list[_Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((a, b)):
        for row in rows:
            if row.left:
                kinds[row.kind][side].append(row)
    for ones, others in kinds.values():
        for rows, opposite in ((ones, others), (others, ones)):
            if opposite and any(row.sourceless for row in opposite):
                for row in rows:
                    row.absorbed = True
            elif opposite:
                for row in rows:
                    row.absorbed = row.sourceless
    for row in (*a, *b):
        if row.absorbed:
            row.left = 0


def _settle(
    a: Sequence[_Row],
    b: Sequence[_Row],
    key: Callable[[_Row], Hashable | None],
    found: Callable[[_Row, _Row, int], None],
) -> None:
    """Match as many nodes of rows with equal keys as both sides have."""
    waiting: dict[Hashable, deque[_Row]] = defaultdict(deque)
    for other in b:
        if other.left:
            waiting[key(other)].append(other)
    waiting.pop(None, None)
    for one in a:
        queue = waiting.get(key(one)) if one.left else None
        while queue and one.left:
            other = queue[0]
            count = min(one.left, other.left)
            one.left -= count
            other.left -= count
            found(one, other, count)
            if not other.left:
                queue.popleft()


def _change(change: str, a: Unfused | None, b: Unfused | None, count: int) -> UnfusedChange:
    row = b or a
    assert row is not None
    return UnfusedChange(
        change,
        row.op,
        row.source,
        row.user_source,
        row.phase,
        count,
        a.reason if a else None,
        b.reason if b else None,
        next(iter(row.evidence), None),
    )


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
