"""What lists, tuples and results of control flow hold. Values are numbers here, and a list has a larger
number than what it holds.

Lists hold lists: of branches in a row each holds the result of the one before. So each list is entered once,
not by each node that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

Parts = Mapping[int, Sequence[int]]
"""A list, tuple or result of control flow -> what it holds."""

Layers = dict[int, frozenset[str]]

Said = TypeVar("Said")


class Together(Generic[Said]):
    """What is said of values and of all that the lists among them hold, as one. What is said of a value must
    not change once a list that holds it was asked about.

    Args:
        said: of a value by itself; None for nothing.
        join: what is said of two as one.
    """

    def __init__(
        self, parts: Parts, said: Callable[[int], Said | None], join: Callable[[Said, Said], Said]
    ) -> None:
        self._parts = parts
        self._said = said
        self._join = join
        self._known: dict[int, Said | None] = {}

    def of(self, numbers: Sequence[int]) -> Said | None:
        for number in numbers:
            if number in self._parts and number not in self._known:
                self._enter(number)
        return self._joined(numbers)

    def _enter(self, number: int) -> None:
        left = [number]
        while left:
            one = left[-1]
            inner = [n for n in self._parts[one] if n in self._parts and n not in self._known]
            if inner and one not in self._known:
                left += inner
            else:
                self._known[left.pop()] = self._joined(self._parts[one])

    def _joined(self, numbers: Iterable[int]) -> Said | None:
        found: Said | None = None
        for number in numbers:
            more = self._known[number] if number in self._parts else self._said(number)
            if more is not None:
                found = more if found is None else self._join(found, more)
        return found


class HandedDown:
    """Layers of values; those of a list are also of all that it holds, once ``down_to`` has come to it.

    Args:
        of: the layers, which this adds to.
    """

    def __init__(self, parts: Parts, of: Layers) -> None:
        self._parts = parts
        self._of = of
        self._lists: Layers = {}
        """What was said of lists, and not yet of what they hold."""
        self._order: list[int] = []
        """These lists, as a heap: the largest number first."""

    def say(self, numbers: Iterable[int], layers: frozenset[str]) -> None:
        for number in numbers:
            _add(self._of, number, layers)
            if number in self._parts:
                if number not in self._lists:
                    heappush(self._order, -number)
                _add(self._lists, number, layers)

    def down_to(self, number: int) -> None:
        """What was said of lists with larger numbers is said of what they hold."""
        while self._order and -self._order[0] > number:
            one = -heappop(self._order)
            self.say(self._parts[one], self._lists.pop(one))


def united(some: frozenset[str], more: frozenset[str]) -> frozenset[str]:
    """Both, as one of the two where that holds the other."""
    return some if more <= some else some | more


def _add(of: Layers, number: int, layers: frozenset[str]) -> None:
    before = of.get(number)
    of[number] = layers if before is None else united(before, layers)
