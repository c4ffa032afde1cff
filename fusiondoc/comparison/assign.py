"""Pairing the members of two lists: by equal keys, then greedily by score. Ties go by what things hold and
never by chance, so the result is the same for any numbering."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Callable, Hashable, Iterable, Iterator, Sequence, TypeVar

T = TypeVar("T")


def pair_equal(
    a: list[T],
    b: list[T],
    key: Callable[[T], Hashable | None],
    content: Callable[[T], Any] | None = None,
) -> list[tuple[T, T]]:
    """Take the members with equal keys out of both lists, as pairs.

    Args:
        key: None for a member that has none.
        content: of several with one key those of the same content are paired first, then in order.
    """
    found: list[tuple[T, T]] = []
    if content is not None:
        inner = content
        found += pair_equal(a, b, lambda one: None if key(one) is None else (key(one), inner(one)))
    waiting: dict[Hashable, list[T]] = defaultdict(list)
    for one in b:
        value = key(one)
        if value is not None:
            waiting[value].append(one)
    for row in waiting.values():
        row.reverse()
    taken: set[int] = set()
    rest: list[T] = []
    for one in a:
        value = key(one)
        row = waiting.get(value, []) if value is not None else []
        if row:
            other = row.pop()
            taken.add(id(other))
            found.append((one, other))
        else:
            rest.append(one)
    a[:] = rest
    b[:] = [one for one in b if id(one) not in taken]
    return found


def greedy(scored: Iterable[tuple[float, int, int]]) -> Iterator[tuple[int, int]]:
    """Pairs of places by falling score, each place once; equal scores by how near the places are."""
    used_a: set[int] = set()
    used_b: set[int] = set()
    for _, i, j in sorted(scored, key=lambda row: (-round(row[0], 9), abs(row[1] - row[2]), row[1], row[2])):
        if i not in used_a and j not in used_b:
            used_a.add(i)
            used_b.add(j)
            yield i, j


def candidates(
    a: Sequence[T], b: Sequence[T], keys: Callable[[T], Iterable[Hashable]], most: int
) -> list[tuple[int, int]]:
    """Places of members that share a key, those that share a rare one first; ``most`` bounds how many."""
    posts: tuple[dict[Hashable, list[int]], dict[Hashable, list[int]]] = (
        defaultdict(list),
        defaultdict(list),
    )
    for side, members in enumerate((a, b)):
        for index, member in enumerate(members):
            for key in set(keys(member)):
                posts[side][key].append(index)
    shared = [(posts[0][key], posts[1][key]) for key in posts[0] if key in posts[1]]
    shared.sort(key=lambda pair: (len(pair[0]) * len(pair[1]), pair[0], pair[1]))
    found: dict[tuple[int, int], None] = {}
    for left, right in shared:
        if len(found) + len(left) * len(right) <= most:
            found.update(((i, j), None) for i in left for j in right)
        else:
            # Too many: each with those at about the same place in the order.
            for number, i in enumerate(left):
                at = number * len(right) // len(left)
                found.update(((i, j), None) for j in right[max(0, at - _NEAR) : at + _NEAR])
    return list(found)


_NEAR = 8
