"""Positions of operators that correspond on both sides of a comparison, although
lines and folders differ.

Files are paired by the end of their path (a moved checkout, another environment),
their lines by the operators on them (alignment.py). ``<string>`` is the file of
autodiff
formulas: several texts share it, so a line of it is a weak sign.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fusiondoc.alignment import Marks, align
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source

WEAK_FILE = "<string>"

Token = tuple[int, int]
"""(file, line) as numbers that both sides share; negative for a line that only one
side has."""

_Lines = dict[int, Marks]


class Position(NamedTuple):
    """The position of an operator. ``token`` is None without a source."""

    token: Token | None
    aligned: bool
    """Whether the other side has this line too, so that another position there
    really is another one."""
    weak: bool
    """Whether it is a line of an autodiff formula."""


NOWHERE = Position(None, False, True)


class Positions:
    """Positions of both reports."""

    def __init__(self, a: Report, b: Report) -> None:
        self._known: tuple[
            dict[tuple[str, int], Position], dict[tuple[str, int], Position]
        ] = ({}, {})
        self._cache: tuple[dict[str, Position], dict[str, Position]] = ({}, {})
        files = _files(a), _files(b)
        for number, (name_a, name_b) in enumerate(_paired_files(*files)):
            lines_a = files[0][name_a] if name_a is not None else {}
            lines_b = files[1][name_b] if name_b is not None else {}
            self._add(number, (name_a, name_b), (lines_a, lines_b))

    def _add(
        self,
        number: int,
        names: tuple[str | None, str | None],
        files: tuple[_Lines, _Lines],
    ) -> None:
        """Add the lines of a file; ``number`` is the file's number in tokens."""
        weak = WEAK_FILE in names
        lines = sorted(files[0]), sorted(files[1])
        marks_a = [files[0][line] for line in lines[0]]
        marks_b = [files[1][line] for line in lines[1]]
        pairs = align(marks_a, marks_b, lines)
        for side, name in enumerate(names):
            if name is None:
                continue
            partners = {pair[side]: token for token, pair in enumerate(pairs)}
            for index, line in enumerate(lines[side]):
                aligned = index in partners
                token = partners[index] if aligned else -2 * index - side - 1
                self._known[side][name, line] = Position(
                    (number, token), aligned, weak
                )

    def of(self, side: int, source: str | None) -> Position:
        """The position of ``file:line[:column]`` on side 0 (A) or 1 (B)."""
        if source is None:
            return NOWHERE
        position = self._cache[side].get(source)
        if position is None:
            file, line, _ = split_source(source)
            position = self._known[side].get((file, line), NOWHERE)
            self._cache[side][source] = position
        return position


def split_source(source: str) -> tuple[str, int, int]:
    """The parts of ``file:line:column``; a part that is missing is 0."""
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
    """File -> line -> the operators on it. A source without a column adds an
    operator that the line lacks."""
    marks: dict[str, dict[int, set[tuple[str, int]]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for op, source in set(_sources(report)):
        file, line, column = split_source(source)
        found = marks[file][line]
        if op:
            has_column = column or source.count(":") > 1
            found.add((op, column if has_column else -1))
    files: dict[str, _Lines] = {}
    for file, lines in marks.items():
        files[file] = {
            line: _without_doubles(found) for line, found in lines.items()
        }
    return files


def _without_doubles(marks: set[tuple[str, int]]) -> Marks:
    """The operators of a line; one without a column is left out if it is also there
    with a column."""
    with_column = {op for op, column in marks if column >= 0}
    kept = set()
    for mark in marks:
        if mark[1] >= 0 or mark[0] not in with_column:
            kept.add(mark)
    return frozenset(kept)


def _paired_files(
    a: dict[str, _Lines], b: dict[str, _Lines]
) -> Iterator[tuple[str | None, str | None]]:
    """Pair files with the same path, then with the longest common end of the path,
    then (renamed) with similar contents; then list the files of one side."""
    left_a = [name for name in sorted(a) if name not in b]
    left_b = [name for name in sorted(b) if name not in a]
    for name in sorted(a):
        if name in b:
            yield name, name
    for by_name in (True, False):
        scored = list(_scored(left_a, left_b, a, b, by_name))
        for *_, x, y in sorted(scored):
            if x in left_a and y in left_b:
                left_a.remove(x)
                left_b.remove(y)
                yield x, y
    for name in left_a:
        yield name, None
    for name in left_b:
        yield None, name


def _scored(
    left_a: Sequence[str],
    left_b: Sequence[str],
    a: dict[str, _Lines],
    b: dict[str, _Lines],
    by_name: bool,
) -> Iterator[tuple[int, float, str, str]]:
    """Score two files that may be the same, by the end of their paths or else by
    their contents; lower is more similar."""
    for x in left_a:
        for y in left_b:
            end = _common_end(x, y)
            if by_name and not end:
                continue
            likeness = _likeness(a[x], b[y])
            if by_name or likeness > _MOST_UNLIKE:
                yield -end, -likeness, x, y


_MOST_UNLIKE = 0.5
"""Least share of equal lines with which a file of another name counts as the
renamed one."""


def _common_end(x: str, y: str) -> int:
    """Number of last components that two paths have in common; 0 if one is the file
    of autodiff formulas."""
    if WEAK_FILE in (x, y):
        return 0
    common = 0
    for part, other in zip(reversed(x.split("/")), reversed(y.split("/"))):
        if part != other:
            break
        common += 1
    return common


def _likeness(a: _Lines, b: _Lines) -> float:
    x, y = Counter(a.values()), Counter(b.values())
    return 2 * sum((x & y).values()) / max(1, len(a) + len(b))
