"""Edges of a plan that share a list: a list of n tensors that n operators read
makes n * n edges.

Edges through such a list are not made while the plan is walked. Afterwards each
node gets its neighbours, limited so that the rules for reasons can inspect all of
them in time proportional to the plan; code that draws the edges requests the
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_STEPS = 200_000
"""Number of neighbours of neighbours that are inspected in a plan; the recorded
plans have at most 1,200."""

STEPS_OF_NODE = 64
"""The same for each node of a large plan."""

FEWEST = 16
"""Number of neighbours of a node on one side that are always inspected, if it has
so many."""

MOST_IN_LISTS = 1_000_000
"""Number of tensors in all lists of a plan: lists can hold lists."""

SEEN_IN_LIST = 100
"""Number of tensors of a list that are followed back from a number such as the
list's length."""


class Hub(tuple[int, ...]):
    """A list of many tensors: the distinct nodes that make them, and in ``takers``
    the nodes that take them."""

    takers: list[int]
    ordered: tuple[list[int], list[int]] | None = None
    """Makers and takers in order, once the plan is walked."""

    def sides(self) -> tuple[list[int], list[int]]:
        if self.ordered is None:
            self.ordered = sorted(self), sorted(set(self.takers))
        return self.ordered


class Hubs:
    """The hubs of one plan, by the nodes that make or take their tensors."""

    __slots__ = ("_in_lists", "_into", "_out_of")

    def __init__(self) -> None:
        self._into: dict[int, list[Hub]] = {}
        """Node -> the lists that hold a tensor that it makes."""
        self._out_of: dict[int, list[Hub]] = {}
        """Node -> the lists that it takes."""
        self._in_lists = 0

    def __bool__(self) -> bool:
        return bool(self._into)

    def joined(self, made: Sequence[Sequence[int]], few: int) -> tuple[int, ...]:
        """Return the distinct nodes that make the tensors of a list. Once the plan
        has more than MOST_IN_LISTS, only a few makers of each element count."""
        if self._in_lists > MOST_IN_LISTS:
            made = [one[:few] for one in made]
        makers = dict.fromkeys(maker for one in made for maker in one)
        self._in_lists += len(makers)
        if len(makers) <= few:
            return tuple(makers)
        hub = Hub(makers)
        hub.takers = []
        return hub

    def take(self, hub: Hub, taker: int) -> None:
        """Record that a node takes the tensors of a list."""
        if not hub.takers:
            for maker in hub:
                self._into.setdefault(maker, []).append(hub)
        known = self._out_of.setdefault(taker, [])
        if not known or known[-1] is not hub:
            known.append(hub)
            hub.takers.append(taker)

    def of(self, node: int, forward: bool) -> list[Hub]:
        return (self._into if forward else self._out_of).get(node, [])

    def ends(self, node: int, forward: bool) -> list[Sequence[int]]:
        """Return the nodes on the other side of each list that the node makes or
        takes, in order."""
        return [hub.sides()[forward] for hub in self.of(node, forward)]

    def within(
        self, node: int, forward: bool, direct: Iterable[int], most: int
    ) -> tuple[int, ...]:
        """Return the first neighbours of a node on one side, in order; one more
        than ``most`` if there are more."""
        found = set(sorted(direct)[: most + 1])
        for end in self.ends(node, forward):
            found.update(end[: most + 2])
        found.discard(node)
        return tuple(sorted(found)[: most + 1])


def most_steps(nodes: int) -> int:
    """Return how many steps from node to node are allowed in a plan with this
    number of nodes."""
    return max(MOST_STEPS, STEPS_OF_NODE * nodes)


def most_neighbours(degrees: Sequence[int], nodes: int) -> int:
    """Return how many neighbours of a node on one side the rules may inspect, so
    that the neighbours of neighbours stay within ``most_steps``.

    Args:
        degrees: number of neighbours of each node, for each side.
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
