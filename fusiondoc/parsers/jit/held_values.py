"""Lists, tuples and results of control flow, and the values that they hold. Values
are numbers here, and a list has a larger number than the values that it holds.

Lists can hold lists: with several branches in a row, each result holds the result
of the previous branch. So each list is entered only once, not for each node that
reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

Parts = Mapping[int, Sequence[int]]
"""A list, tuple or result of control flow -> the values that it holds."""

Layers = dict[int, frozenset[str]]

Known = TypeVar("Known")


class Together(Generic[Known]):
    """Joins the facts of values and of all values in lists among them. The fact of
    a value must not change after a list that holds it was read.

    Args:
        fact: returns the fact of a single value; None if it has none.
        join: makes one fact of two.
    """

    def __init__(
        self,
        parts: Parts,
        fact: Callable[[int], Known | None],
        join: Callable[[Known, Known], Known],
    ) -> None:
        self._parts = parts
        self._fact = fact
        self._join = join
        self._known: dict[int, Known | None] = {}

    def of(self, numbers: Sequence[int]) -> Known | None:
        for number in numbers:
            if number in self._parts and number not in self._known:
                self._enter(number)
        return self._joined(numbers)

    def _enter(self, number: int) -> None:
        left = [number]
        while left:
            one = left[-1]
            inner = [
                n
                for n in self._parts[one]
                if n in self._parts and n not in self._known
            ]
            if inner and one not in self._known:
                left += inner
            else:
                self._known[left.pop()] = self._joined(self._parts[one])

    def _joined(self, numbers: Iterable[int]) -> Known | None:
        found: Known | None = None
        for number in numbers:
            if number in self._parts:
                more = self._known[number]
            else:
                more = self._fact(number)
            if more is not None:
                found = more if found is None else self._join(found, more)
        return found


class HandedDown:
    """Layers of values. ``down_to`` adds the layers of a list to the values that it
    holds.

    Args:
        of: the layers; this object adds to them.
    """

    def __init__(self, parts: Parts, of: Layers) -> None:
        self._parts = parts
        self._of = of
        self._lists: Layers = {}
        """Layers of lists that the values in the lists have not got yet."""
        self._order: list[int] = []
        """The keys of ``_lists``, as a heap with the largest number first."""

    def add(self, numbers: Iterable[int], layers: frozenset[str]) -> None:
        for number in numbers:
            _add(self._of, number, layers)
            if number in self._parts:
                if number not in self._lists:
                    heappush(self._order, -number)
                _add(self._lists, number, layers)

    def down_to(self, number: int) -> None:
        """Add the layers of lists with numbers above ``number`` to the values that
        they hold."""
        while self._order and -self._order[0] > number:
            one = -heappop(self._order)
            self.add(self._parts[one], self._lists.pop(one))


def united(some: frozenset[str], more: frozenset[str]) -> frozenset[str]:
    """Return the union; the same object if one set contains the other."""
    if more <= some:
        return some
    return some | more


def _add(of: Layers, number: int, layers: frozenset[str]) -> None:
    before = of.get(number)
    of[number] = layers if before is None else united(before, layers)
