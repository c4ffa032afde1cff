"""What of a plan waits for operators that change its tensors in place: nothing that reads such a tensor is
moved past them (``AliasDb::moveBeforeTopologicallyValid``, which every fusion pass asks)."""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from fusiondoc.diagnosis.operators import is_in_place
from fusiondoc.diagnosis.surroundings import NO_KERNEL
from fusiondoc.model.report import Program


class Sides:
    """A program, and its edges by their ends."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = program.nodes
        self.before: dict[int, list[int]] = {}
        self.after: dict[int, list[int]] = {}
        for a, b in program.edges:
            self.before.setdefault(b, []).append(a)
            self.after.setdefault(a, []).append(b)


class Around(Sides):
    """What reads the memory of the nodes of a program, under which name."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        views = {place for place, node in enumerate(self.nodes) if node.reason == "FD226"}
        self._views = views.union(a for a, b in program.edges if b in views)
        """Views, and what a view is made of."""
        self._last = {a: max(readers) for a, readers in self.after.items()}

    def may_read_as_it_was(self, place: int) -> bool:
        makers = self.before.get(place, ())
        if not self._views.isdisjoint(makers):
            return True
        named_anew = place in self.after  # or h.relu_() alone
        return named_anew and max((self._last[one] for one in makers), default=place) > place


class Order(NamedTuple):
    """What operators in place add to the edges of a plan: node -> nodes before it."""

    takes: dict[int, list[int]]
    """Those whose result it takes once they are written out of place: it reads what they changed."""
    waits: dict[int, list[int]]
    """Those that have to run before it: one of the two changes a tensor that the other reads."""


def order_of(sides: Sides, free: Sequence[bool]) -> Order:
    """What follows from the memory that nodes share.

    Args:
        free: which nodes could be in a group: an operator in place among them is written out of place.
    """
    memory = _Memory(sides)
    order = Order({}, {})
    writers: dict[int, list[int]] = {}
    made_by = memory.made_by()
    for place in memory.writers:
        if place in made_by:
            writers.setdefault(made_by[place], []).append(place)
    for made, those in writers.items():
        readers = memory.readers(made)
        # Through a view it changes what others read whole: out of place it would not.
        stays = [one for one in those if not free[one] or readers.get(one, True)]
        those_that_stay = frozenset(stays)
        for reader, viewed in readers.items():
            later = bisect(stays, reader)
            if later < len(stays):
                order.waits.setdefault(stays[later], []).append(reader)
            earlier = bisect_left(those, reader) - 1
            if earlier < 0:
                continue
            writer = those[earlier]
            if writer in those_that_stay:
                order.waits.setdefault(reader, []).append(writer)
            elif not viewed:
                order.takes.setdefault(reader, []).append(writer)
    return order


class _Memory:
    """Which nodes of a plan share memory with what they take: views, and operators in place."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        operators = [i for i, one in enumerate(sides.nodes) if one.kind == "operator"]
        self.writers = [i for i in operators if is_in_place(sides.nodes[i].op)]
        """In order."""
        self._views = {i for i in operators if sides.nodes[i].op in NO_KERNEL}
        self._shares = self._views.union(self.writers)

    def made_by(self) -> dict[int, int]:
        """Node that changes or views a tensor -> the node that made its memory, where that is in the plan."""
        made: dict[int, int] = {}
        for place in sorted(self._shares):
            first = self._sides.nodes[place].first
            if first is not None and first < place:
                made[place] = made.get(first, first)
        return made

    def readers(self, made: int) -> dict[int, bool]:
        """Every node that takes a tensor in this memory, and whether it takes only a view of it."""
        found: dict[int, bool] = {}
        todo = [(made, made in self._views)]
        while todo:
            place, viewed = todo.pop()
            for one in self._sides.after.get(place, ()):
                if one in found and (viewed or not found[one]):
                    continue
                found[one] = viewed
                if one in self._shares:
                    todo.append((one, viewed or one in self._views))
        return found
