"""Which line of a source file in A is which line in B, told by the operators on the lines alone.

A log names lines but does not hold the file, so lines are compared by what is on them: a set of (operator,
column). Both files are read from top to bottom, as a text diff does it, so lines that moved together find
each other however far they moved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Callable, FrozenSet, List, Sequence, Tuple

Mark = Tuple[str, int]
"""(operator, column)."""
Marks = FrozenSet[Mark]
Pairs = List[Tuple[int, int]]

_MOST_CELLS = 250_000
"""Size of the table up to which lines are compared each with each."""

_FEW_CELLS = 40_000
"""Size up to which line numbers decide between equal lines."""

_EQUAL = 3.0
"""What an equal line counts; one that is only alike counts 1.1 at most."""

_SAME_NUMBER = 0.001


def align(
    a: Sequence[Marks], b: Sequence[Marks], numbers: tuple[Sequence[int], Sequence[int]] | None = None
) -> Pairs:
    """Pairs of places in ``a`` and ``b``, rising in both: equal lines first, then those that share an
    operator.

    Args:
        numbers: the line numbers of both sides; of several equal lines those with the same number are paired.
    """
    if list(a) == list(b):
        return [(n, n) for n in range(len(a))]
    if numbers is not None and len(a) * len(b) <= _FEW_CELLS:
        at_a, at_b = numbers

        def alike(i: int, j: int) -> float:
            likeness = _EQUAL if a[i] == b[j] else _likeness(a[i], b[j])
            return likeness + _SAME_NUMBER if likeness and at_a[i] == at_b[j] else likeness

        return _best(range(len(a)), range(len(b)), alike)
    pairs: Pairs = []
    for a_from, a_to, b_from, b_to in _gaps(_equal(a, b, 0, len(a), 0, len(b)), len(a), len(b), pairs):
        if (a_to - a_from) * (b_to - b_from) <= _MOST_CELLS:
            pairs += _best(range(a_from, a_to), range(b_from, b_to), lambda i, j: _likeness(a[i], b[j]))
    return sorted(pairs)


def _gaps(equal: Pairs, a_end: int, b_end: int, kept: Pairs) -> list[tuple[int, int, int, int]]:
    """What lies between the equal lines, on both sides; ``kept`` takes the equal lines."""
    gaps = []
    a_from = b_from = 0
    for i, j in [*equal, (a_end, b_end)]:
        if i > a_from and j > b_from:
            gaps.append((a_from, i, b_from, j))
        a_from, b_from = i + 1, j + 1
    kept += equal
    return gaps


def _equal(a: Sequence[Marks], b: Sequence[Marks], a_from: int, a_to: int, b_from: int, b_to: int) -> Pairs:
    """Equal lines in the same order: common start and end, then a longest common subsequence of what lies
    between; where that is too large, between lines (or runs of lines) that are alone of their kind."""
    head: Pairs = []
    while a_from < a_to and b_from < b_to and a[a_from] == b[b_from]:
        head.append((a_from, b_from))
        a_from, b_from = a_from + 1, b_from + 1
    tail: Pairs = []
    while a_from < a_to and b_from < b_to and a[a_to - 1] == b[b_to - 1]:
        a_to, b_to = a_to - 1, b_to - 1
        tail.append((a_to, b_to))
    middle: Pairs = []
    if a_from < a_to and b_from < b_to:
        if (a_to - a_from) * (b_to - b_from) <= _MOST_CELLS:
            middle = _best(range(a_from, a_to), range(b_from, b_to), lambda i, j: float(a[i] == b[j]))
        else:
            middle = _between_anchors(a, b, a_from, a_to, b_from, b_to)
    return head + middle + tail[::-1]


def _between_anchors(
    a: Sequence[Marks], b: Sequence[Marks], a_from: int, a_to: int, b_from: int, b_to: int
) -> Pairs:
    anchors: Pairs = []
    for length in _RUNS:
        anchors = _rising(_unique(a, b, (a_from, a_to), (b_from, b_to), length))
        if anchors:
            break
    found: Pairs = []
    for i, j in [*anchors, (a_to, b_to)]:
        # Without an anchor the part would stay as large as it is: then its lines are left unaligned.
        if anchors:
            found += _equal(a, b, a_from, i, b_from, j)
        if i < a_to:
            found.append((i, j))
        a_from, b_from = i + 1, j + 1
    return found


_RUNS = (1, 4, 8, 16)
"""Lines in a row that make an anchor: many programs repeat their lines, fewer repeat many in a row."""


def _unique(
    a: Sequence[Marks], b: Sequence[Marks], of_a: tuple[int, int], of_b: tuple[int, int], length: int
) -> Pairs:
    """Where a run of lines begins that either side has once."""
    runs = [
        {i: tuple(side[i : i + length]) for i in range(start, end - length + 1)}
        for side, (start, end) in ((a, of_a), (b, of_b))
    ]
    often = [Counter(side.values()) for side in runs]
    where = {run: j for j, run in runs[1].items()}
    return [(i, where[run]) for i, run in runs[0].items() if often[0][run] == 1 and often[1].get(run) == 1]


def _rising(pairs: Pairs) -> Pairs:
    """The longest part of ``pairs`` (rising in the first place) that rises in the second place too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        before.append(last[at - 1] if at else -1)
        if at == len(ends):
            ends.append(j)
            last.append(number)
        else:
            ends[at], last[at] = j, number
    found: Pairs = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def _likeness(x: Marks, y: Marks) -> float:
    """Share of the operators that both lines have; a little more where the columns agree too."""
    ops_x, ops_y = {op for op, _ in x}, {op for op, _ in y}
    common = len(ops_x & ops_y)
    if not common:
        return 0.0
    return common / len(ops_x | ops_y) + 0.1 * len(x & y) / len(x | y)


def _best(rows: range, columns: range, alike: Callable[[int, int], float]) -> Pairs:
    """The pairs of highest total likeness that rise in both, by dynamic programming."""
    table = [[0.0] * (len(columns) + 1)]
    for i in rows:
        above = table[-1]
        line = [0.0]
        for number, j in enumerate(columns):
            likeness = alike(i, j)
            best = max(above[number + 1], line[number])
            line.append(max(best, above[number] + likeness) if likeness else best)
        table.append(line)
    found: Pairs = []
    x, y = len(rows), len(columns)
    while x and y:
        if table[x][y] == table[x - 1][y]:
            x -= 1
        elif table[x][y] == table[x][y - 1]:
            y -= 1
        else:
            x, y = x - 1, y - 1
            found.append((rows[x], columns[y]))
    return found[::-1]
