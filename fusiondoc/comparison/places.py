"""Places of operators that mean the same on both sides, whatever lines and folders were called.

Files are paired by the end of their path (a moved checkout, another environment), their lines by what is
on them (alignment.py). ``<string>`` is the file of autodiff formulas: several texts share it, so a line of
it is a weak sign.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Dict, Iterator, NamedTuple, Tuple

from fusiondoc.alignment import Marks, align
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source

WEAK_FILE = "<string>"

Token = Tuple[int, int]
"""(file, line) as numbers that both sides share; negative for a line that only one side has."""

_Lines = Dict[int, Marks]


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
