"""Edges of a plan in which very many meet: a list of n tensors that n operators
read has n * n of them.

An edge through such a list is not made while the plan is walked. Then each node
gets its neighbours, as far as the rules for reasons may look at all of them in a
time that grows with the plan; who draws the edges asks for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_STEPS = 200_000
"""Neighbours of neighbours that are looked at, all of a plan together; the
recordings have 1,200 at most."""

STEPS_OF_NODE = 64
"""The same for each node of a large plan."""

FEWEST = 16
"""Neighbours of a node on one side that are always looked at, if it has so many."""

MOST_IN_LISTS = 1_000_000
"""Tensors of all lists of a plan together: one list may hold another."""

SEEN_IN_LIST = 100
"""Tensors of a list of which a number is followed back, such as its length."""


class Hub(tuple[int, ...]):
    """A list of many tensors: the nodes that make them, each once; and those that
    take them."""

    takers: list[int]
    ordered: tuple[list[int], list[int]] | None = None
    """Makers and takers in order, once the plan is walked."""

    def sides(self) -> tuple[list[int], list[int]]:
        if self.ordered is None:
            self.ordered = sorted(self), sorted(set(self.takers))
        return self.ordered


class Hubs:
    """Those of one plan, by the nodes at their ends."""

    __slots__ = ("_in_lists", "_into", "_out_of")

    def __init__(self) -> None:
        self._into: dict[int, list[Hub]] = {}
        """Node -> lists that hold a tensor that it makes."""
        self._out_of: dict[int, list[Hub]] = {}
        """Node -> lists that it takes."""
        self._in_lists = 0

    def __bool__(self) -> bool:
        return bool(self._into)

    def joined(self, made: Sequence[Sequence[int]], few: int) -> tuple[int, ...]:
        """The nodes that make the tensors of a list, each once; of lists in lists
        beyond the most a few of each."""
        if self._in_lists > MOST_IN_LISTS:
            made = [one[:few] for one in made]
        makers = dict.fromkeys(place for one in made for place in one)
        self._in_lists += len(makers)
        if len(makers) <= few:
            return tuple(makers)
        hub = Hub(makers)
        hub.takers = []
        return hub

    def take(self, hub: Hub, taker: int) -> None:
        """A node takes the tensors of a list."""
        if not hub.takers:
            for maker in hub:
                self._into.setdefault(maker, []).append(hub)
        known = self._out_of.setdefault(taker, [])
        if not known or known[-1] is not hub:
            known.append(hub)
            hub.takers.append(taker)

    def of(self, place: int, forward: bool) -> list[Hub]:
        return (self._into if forward else self._out_of).get(place, [])

    def ends(self, place: int, forward: bool) -> list[Sequence[int]]:
        """What the lists on one side of a node connect it with, of each list in
        order."""
        return [hub.sides()[forward] for hub in self.of(place, forward)]

    def within(
        self, place: int, forward: bool, direct: Iterable[int], most: int
    ) -> tuple[int, ...]:
        """The first neighbours of a node on one side, in order; one more than
        ``most`` if it has more."""
        found = set(sorted(direct)[: most + 1])
        for end in self.ends(place, forward):
            found.update(end[: most + 2])
        found.discard(place)
        return tuple(sorted(found)[: most + 1])


def most_steps(nodes: int) -> int:
    """Steps from node to node that a plan of so many may cost."""
    return max(MOST_STEPS, STEPS_OF_NODE * nodes)


def most_neighbours(degrees: Sequence[int], nodes: int) -> int:
    """How many neighbours of a node on one side the rules may look at, so that
    neighbours of neighbours are no more than the plan may cost.

    Args:
        degrees: how many each node has, once for each side.
    """
    allowed = most_steps(nodes)
    most = max(degrees, default=0)
    while most > FEWEST:
        near = sum([min(one, most) for one in degrees])
        if (
            near * most <= allowed
            or sum([one * min(one, most) for one in degrees]) <= allowed
        ):
            break
        most //= 2
    return max(most, FEWEST)
