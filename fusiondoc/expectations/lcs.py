"""The longest common subsequence of two lists of operators."""

from __future__ import annotations

from collections import Counter
from typing import Sequence

_MOST_CELLS = 4_000_000
"""A table of more cells takes seconds; then only common ends are compared."""


def common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many operators two lists share in any order: no common subsequence is longer."""
    return sum((Counter(a) & Counter(b)).values())


def longest_common(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of indices (into a, into b) of a longest common subsequence, in order."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    pairs = [(i, i) for i in range(start)]
    if len(middle_a) * len(middle_b) <= _MOST_CELLS:
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
