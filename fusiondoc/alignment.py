"""Alignment of sequences: lines of two source files, rows that may be pairs,
operators of groups.

A log names lines but does not hold the file, so lines are compared by their
operators: a set of (operator, column). Both files are read from top to bottom, as a
text diff does it, so lines that moved together find each other however far they
moved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

Mark = tuple[str, int]
"""(operator, column)."""
Marks = frozenset[Mark]
Pairs = list[tuple[int, int]]

_MOST_CELLS = 250_000
"""Largest table in which lines are compared each with each."""

_FEW_CELLS = 40_000
"""Largest table in which line numbers decide between equal lines."""

_EQUAL = 3.0
"""Score of an equal line; a line that is only similar scores 1.1 at most
(``_likeness``)."""

_SAME_NUMBER = 0.001


def align(
    a: Sequence[Marks],
    b: Sequence[Marks],
    numbers: tuple[Sequence[int], Sequence[int]] | None = None,
) -> Pairs:
    """Pairs of indices into ``a`` and ``b``, rising in ``a``: equal lines first,
    then lines that share an operator. Lines that are out of order were moved past
    others: among these only equal lines are paired.

    Args: numbers: the line numbers of both sides; of several equal lines those with
        the same number are paired.
    """
    if list(a) == list(b):
        return [(n, n) for n in range(len(a))]
    return _with_moved(a, b, _in_order(a, b, numbers))


def _with_moved(a: Sequence[Marks], b: Sequence[Marks], pairs: Pairs) -> Pairs:
    """Add the pairs of equal lines that were moved past others. A line that has an
    equal line on the other side is not paired with a line that is merely alike."""
    equal = [(i, j) for i, j in pairs if a[i] == b[j]]
    used_a, used_b = {i for i, _ in equal}, {j for _, j in equal}
    waiting: dict[Marks, list[int]] = defaultdict(list)
    for j in reversed(range(len(b))):
        if j not in used_b:
            waiting[b[j]].append(j)
    for i in range(len(a)):
        if i not in used_a and a[i] and waiting[a[i]]:
            j = waiting[a[i]].pop()
            equal.append((i, j))
            used_a.add(i)
            used_b.add(j)
    alike = [(i, j) for i, j in pairs if i not in used_a and j not in used_b]
    return sorted(equal + alike)


def _in_order(
    a: Sequence[Marks],
    b: Sequence[Marks],
    numbers: tuple[Sequence[int], Sequence[int]] | None,
) -> Pairs:
    """The pairs that ascend in both sides."""
    if numbers is not None and len(a) * len(b) <= _FEW_CELLS:
        at_a, at_b = numbers

        def alike(i: int, j: int) -> float:
            likeness = _EQUAL if a[i] == b[j] else _likeness(a[i], b[j])
            if likeness and at_a[i] == at_b[j]:
                return likeness + _SAME_NUMBER
            return likeness

        return _best(range(len(a)), range(len(b)), alike)
    pairs: Pairs = []
    for a_from, a_to, b_from, b_to in _gaps(
        _equal(a, b, 0, len(a), 0, len(b)), len(a), len(b), pairs
    ):
        if (a_to - a_from) * (b_to - b_from) <= _MOST_CELLS:
            pairs += _best(
                range(a_from, a_to),
                range(b_from, b_to),
                lambda i, j: _likeness(a[i], b[j]),
            )
    return sorted(pairs)


def _gaps(
    equal: Pairs, a_end: int, b_end: int, kept: Pairs
) -> list[tuple[int, int, int, int]]:
    """The gaps between equal lines: start and end in ``a`` and ``b``. Appends the
    equal lines to ``kept``."""
    gaps = []
    a_from = b_from = 0
    for i, j in [*equal, (a_end, b_end)]:
        if i > a_from and j > b_from:
            gaps.append((a_from, i, b_from, j))
        a_from, b_from = i + 1, j + 1
    kept += equal
    return gaps


def _equal(
    a: Sequence[Marks],
    b: Sequence[Marks],
    a_from: int,
    a_to: int,
    b_from: int,
    b_to: int,
) -> Pairs:
    """Return the pairs of equal lines in the same order: common start and end, then
    a longest common subsequence of the lines between; if these are too many, the
    same between lines (or runs of lines) that occur only once."""
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
            middle = _best(
                range(a_from, a_to),
                range(b_from, b_to),
                lambda i, j: float(a[i] == b[j]),
            )
        else:
            middle = _between_anchors(a, b, a_from, a_to, b_from, b_to)
    return head + middle + tail[::-1]


def _between_anchors(
    a: Sequence[Marks],
    b: Sequence[Marks],
    a_from: int,
    a_to: int,
    b_from: int,
    b_to: int,
) -> Pairs:
    anchors: Pairs = []
    for length in _RUNS:
        anchors = _rising(_unique(a, b, (a_from, a_to), (b_from, b_to), length))
        if anchors:
            break
    found: Pairs = []
    for i, j in [*anchors, (a_to, b_to)]:
        # Without an anchor the range would stay as large as it is: then its lines
        # are left unaligned.
        if anchors:
            found += _equal(a, b, a_from, i, b_from, j)
        if i < a_to:
            found.append((i, j))
        a_from, b_from = i + 1, j + 1
    return found


_RUNS = (1, 4, 8, 16)
"""Numbers of consecutive lines that make an anchor: many programs repeat single
lines, fewer repeat many in a row."""


def _unique(
    a: Sequence[Marks],
    b: Sequence[Marks],
    of_a: tuple[int, int],
    of_b: tuple[int, int],
    length: int,
) -> Pairs:
    """Pairs of indices at which a run of ``length`` lines begins that occurs
    exactly once on each side."""
    runs = []
    for side, (start, end) in ((a, of_a), (b, of_b)):
        runs.append(
            {i: tuple(side[i : i + length]) for i in range(start, end - length + 1)}
        )
    often = [Counter(side.values()) for side in runs]
    where = {run: j for j, run in runs[1].items()}
    pairs = []
    for i, run in runs[0].items():
        if often[0][run] == 1 and often[1].get(run) == 1:
            pairs.append((i, where[run]))
    return pairs


def _rising(pairs: Pairs) -> Pairs:
    """The longest subsequence of ``pairs`` (sorted by the first index) that ascends
    in the second index too."""
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
    """Share of the operators that both lines have; a little more if the columns
    agree too."""
    ops_x, ops_y = {op for op, _ in x}, {op for op, _ in y}
    common = len(ops_x & ops_y)
    if not common:
        return 0.0
    return common / len(ops_x | ops_y) + 0.1 * len(x & y) / len(x | y)


def _best(rows: range, columns: range, alike: Callable[[int, int], float]) -> Pairs:
    """The pairs of highest total likeness that ascend in both, by dynamic
    programming."""
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


T = TypeVar("T")


def pair_equal(
    a: list[T],
    b: list[T],
    key: Callable[[T], Hashable | None],
    content: Callable[[T], Any] | None = None,
) -> list[tuple[T, T]]:
    """Remove the members with equal keys from both lists, and return them as pairs.

    Args: key: None for a member that has no key and is never paired. content: of
        several members with the same key those of equal content are paired first,
        then in order.
    """
    found: list[tuple[T, T]] = []
    if content is not None:
        inner = content
        found += pair_equal(
            a,
            b,
            lambda member: (
                None if key(member) is None else (key(member), inner(member))
            ),
        )
    waiting: dict[Hashable, list[T]] = defaultdict(list)
    for member in b:
        value = key(member)
        if value is not None:
            waiting[value].append(member)
    for row in waiting.values():
        row.reverse()
    taken: set[int] = set()
    rest: list[T] = []
    for member in a:
        value = key(member)
        row = waiting.get(value, []) if value is not None else []
        if row:
            other = row.pop()
            taken.add(id(other))
            found.append((member, other))
        else:
            rest.append(member)
    a[:] = rest
    b[:] = [member for member in b if id(member) not in taken]
    return found


def greedy(scored: Iterable[tuple[float, int, int]]) -> Iterator[tuple[int, int]]:
    """Pairs of indices by descending score, each index used once; equal scores by
    distance of the indices."""
    used_a: set[int] = set()
    used_b: set[int] = set()
    for _, i, j in sorted(
        scored,
        key=lambda row: (-round(row[0], 9), abs(row[1] - row[2]), row[1], row[2]),
    ):
        if i not in used_a and j not in used_b:
            used_a.add(i)
            used_b.add(j)
            yield i, j


def candidates(
    a: Sequence[T],
    b: Sequence[T],
    keys: Callable[[T], Iterable[Hashable]],
    most: int,
) -> list[tuple[int, int]]:
    """Pairs of indices of members that share a key, rare keys first; at most
    ``most`` pairs."""
    posts: tuple[dict[Hashable, list[int]], dict[Hashable, list[int]]] = (
        defaultdict(list),
        defaultdict(list),
    )
    for side, members in enumerate((a, b)):
        for index, member in enumerate(members):
            for key in set(keys(member)):
                posts[side][key].append(index)
    shared = []
    for key in posts[0]:
        if key in posts[1]:
            shared.append((posts[0][key], posts[1][key]))
    shared.sort(key=lambda pair: (len(pair[0]) * len(pair[1]), pair[0], pair[1]))
    found: dict[tuple[int, int], None] = {}
    for left, right in shared:
        if len(found) + len(left) * len(right) <= most:
            for i in left:
                for j in right:
                    found[(i, j)] = None
        else:
            # Too many: pair each member only with those at about the same relative
            # position.
            for number, i in enumerate(left):
                at = number * len(right) // len(left)
                for j in right[max(0, at - _NEAR) : at + _NEAR]:
                    found[(i, j)] = None
    return list(found)


_NEAR = 8


_MOST_COMPARED = 4_000_000
"""Most cells of a table: a larger one takes seconds; then only common ends are
compared."""


def common(a: Sequence[str], b: Sequence[str]) -> int:
    """Number of operators that two lists share in any order: no common subsequence
    is longer."""
    return sum((Counter(a) & Counter(b)).values())


def longest_common(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of indices (into a, into b) of a longest common subsequence, in
    order."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    pairs = [(i, i) for i in range(start)]
    if len(middle_a) * len(middle_b) <= _MOST_COMPARED:
        pairs += [(i + start, j + start) for i, j in _table(middle_a, middle_b)]
    return pairs + [(len(a) - k, len(b) - k) for k in range(end, 0, -1)]


def _table(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below = lengths[i], lengths[i + 1]
        for j in range(len(b) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if a[i] == b[j] else max(below[j], row[j + 1])
    pairs, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
