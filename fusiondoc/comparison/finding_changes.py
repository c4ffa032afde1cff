"""Findings and fallbacks that only one side has, and operators that are newly outside every group, no longer
so, or outside for another reason; and the places by which they are the same on both sides, whatever lines
and folders were called.

Files are paired by the end of their path (a moved checkout, another environment), their lines by what is on
them (alignment.py). ``<string>`` is the file of autodiff formulas: several texts share it, so a line of it is
a weak sign.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.alignment import Marks, align, pair_equal
from fusiondoc.comparison import FallbackChange, FindingChange, UnfusedChange
from fusiondoc.model import dataclass
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import SEVERITIES, Fallback, Finding, Report, Unfused
from fusiondoc.model.source import Source

WEAK_FILE = "<string>"

Token = tuple[int, int]
"""(file, line) as numbers that both sides share; negative for a line that only one side has."""

_Lines = dict[int, Marks]


class Place(NamedTuple):
    """Where an operator stands. ``token`` is None without a source."""

    token: Token | None
    aligned: bool
    """The other side has this line too, so that another place is known to be another place."""
    weak: bool
    """A line of an autodiff formula."""


NOWHERE = Place(None, False, True)


class Places:
    """Places of both reports."""

    def __init__(self, a: Report, b: Report) -> None:
        self._known: tuple[dict[tuple[str, int], Place], dict[tuple[str, int], Place]] = ({}, {})
        self._cache: tuple[dict[str, Place], dict[str, Place]] = ({}, {})
        files = _files(a), _files(b)
        number = 0
        for name_a, name_b in _paired_files(*files):
            lines = [
                sorted(files[side][name].items()) if name is not None else []
                for side, name in enumerate((name_a, name_b))
            ]
            weak = WEAK_FILE in (name_a, name_b)
            marks_a, marks_b = ([marks for _, marks in side] for side in lines)
            numbers = [line for line, _ in lines[0]], [line for line, _ in lines[1]]
            pairs = align(marks_a, marks_b, numbers)
            for side, name in enumerate((name_a, name_b)):
                if name is None:
                    continue
                partners = {pair[side]: token for token, pair in enumerate(pairs)}
                for index, (line, _) in enumerate(lines[side]):
                    token = partners.get(index)
                    place = (
                        Place((number, token), True, weak)
                        if token is not None
                        else Place((number, -2 * index - side - 1), False, weak)
                    )
                    self._known[side][name, line] = place
            number += 1

    def of(self, side: int, source: str | None) -> Place:
        """The place of ``file:line[:column]`` on side 0 (A) or 1 (B)."""
        if source is None:
            return NOWHERE
        place = self._cache[side].get(source)
        if place is None:
            file, line, _ = split_source(source)
            place = self._known[side].get((file, line), NOWHERE)
            self._cache[side][source] = place
        return place


def split_source(source: str) -> tuple[str, int, int]:
    """``file:line:column`` in its parts; what is not there is 0."""
    found = Source.parse(source)
    if found is None:
        return source, 0, 0
    return found.file.replace("\\", "/"), found.line, found.column or 0


def _sources(report: Report) -> Iterator[tuple[str, str]]:
    """(operator, source) of everything that names a line."""
    for group in report.groups:
        for node in group.nodes:
            for source in (node.source, node.user_source):
                if source is not None:
                    yield node.op, source
    for row in report.unfused:
        for source in (row.source, row.user_source):
            if source is not None:
                yield row.op, source
    for finding in report.findings:
        if finding.source is not None:
            yield "", finding.source


def _files(report: Report) -> dict[str, _Lines]:
    """File -> line -> what is on it. A source without a column adds an operator that the line lacks."""
    marks: dict[str, dict[int, set[tuple[str, int]]]] = defaultdict(lambda: defaultdict(set))
    for op, source in set(_sources(report)):
        file, line, column = split_source(source)
        found = marks[file][line]
        if op and (column or source.count(":") > 1):
            found.add((op, column))
        elif op:
            found.add((op, -1))
    files: dict[str, _Lines] = {}
    for file, lines in marks.items():
        files[file] = {}
        for line, found in lines.items():
            with_column = {op for op, column in found if column >= 0}
            files[file][line] = frozenset(m for m in found if m[1] >= 0 or m[0] not in with_column)
    return files


def _paired_files(a: dict[str, _Lines], b: dict[str, _Lines]) -> Iterator[tuple[str | None, str | None]]:
    """Files of the same path, then of the longest common end of it, then (renamed) of like contents; then
    those of one side."""
    left_a, left_b = sorted(a), sorted(b)
    for name in [name for name in left_a if name in b]:
        left_a.remove(name)
        left_b.remove(name)
        yield name, name
    for least in (1, 0):
        scored = sorted(
            (-_common_end(x, y), -_likeness(a[x], b[y]), x, y)
            for x in left_a
            for y in left_b
            if _common_end(x, y) >= least and (least or _likeness(a[x], b[y]) > _MOST_UNLIKE)
        )
        for *_, x, y in scored:
            if x in left_a and y in left_b:
                left_a.remove(x)
                left_b.remove(y)
                yield x, y
    for name in left_a:
        yield name, None
    for name in left_b:
        yield None, name


_MOST_UNLIKE = 0.5
"""Share of equal lines above which a file of another name is taken for the renamed one."""


def _common_end(x: str, y: str) -> int:
    """How many last parts of two paths agree; none if one is the file of autodiff formulas."""
    if WEAK_FILE in (x, y):
        return 0
    common = 0
    for one, other in zip(reversed(x.split("/")), reversed(y.split("/"))):
        if one != other:
            break
        common += 1
    return common


def _likeness(a: _Lines, b: _Lines) -> float:
    x, y = Counter(a.values()), Counter(b.values())
    return 2 * sum((x & y).values()) / max(1, len(a) + len(b))


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
_LAYERS = re.compile(r"(?: \(|, )layer [^()]*(?=\))")
"""A module, which has another name where it was renamed and is no other finding then."""
_SOURCES = re.compile(r"[^\s()]+:\d+(?::\d+)?")


@dataclass(frozen=True, eq=False)
class _Found:
    finding: Finding
    place: Place
    words: str
    """The message without numbers, places and modules."""

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
    text = _CHANGING.sub("#", _LAYERS.sub("", _SOURCES.sub("", finding.message)))
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
