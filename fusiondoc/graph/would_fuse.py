"""Which nodes of a plan would be one group: as a fusion pass joins them, in the order of the plan, and never
so that a group would have to wait for its own result (a convolution between two of its operators).

All questions of what would fuse with what are this one, with other nodes free: what fusing operators could
save, what a change lets fuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.graph import AnyNode, Graph
from fusiondoc.model import dataclass, field


@dataclass
class Limits:
    """What keeps free nodes apart, beside the ways between them."""

    inside: Sequence[int | None]
    """The branch, loop or region that each node stands in: only nodes of one block are joined."""
    alone: AbstractSet[int] = frozenset()
    """Nodes of which a group has one at most."""
    apart: Callable[[int, int], bool] = lambda maker, taker: False
    """Whether two nodes are not joined, though a tensor goes from one to the other."""
    takes: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Node -> nodes whose result it takes as well, on no edge of the plan."""
    waits: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Node -> nodes that have to run before it, whose result it does not take."""
    skipped: AbstractSet[int] = frozenset()
    """Nodes that go."""


def would_fuse(graph: Graph[AnyNode], free: Sequence[bool], limits: Limits) -> list[list[int]]:
    """The groups that free nodes would be, of one node too: each in the order of the plan.

    Args:
        free: for each node whether it can be in a group.
    """
    groups = _Groups()
    for node in graph.run_order():
        if node in limits.skipped:
            continue
        behind = 0
        candidates: list[int] = []
        for maker in (*graph.before[node], *limits.takes.get(node, ())):
            group = groups.of(maker)
            together = free[node] and limits.inside[maker] == limits.inside[node]
            if group is not None and together and not limits.apart(maker, node):
                candidates.append(group)
                behind |= groups.before[group]
            else:
                behind |= groups.needed_for(maker)
        for earlier in limits.waits.get(node, ()):
            behind |= groups.needed_for(earlier)
        if free[node]:
            groups.add(node, candidates, behind, node in limits.alone)
        else:
            groups.needed_of_others[node] = behind
    return [sorted(members) for members in groups.members.values()]


class _Groups:
    """Groups by their first nodes. Sets of groups are bits of a number: a plan may have as many groups as
    nodes, and each node may be behind all of them."""

    def __init__(self) -> None:
        self.members: dict[int, list[int]] = {}
        self.bits: dict[int, int] = {}
        """Group -> a bit for itself and for each that became part of it."""
        self.before: dict[int, int] = {}
        """Group -> the bits of groups that have to be done before it."""
        self.needed_of_others: dict[int, int] = {}
        """Node in no group -> the bits of groups that have to be done before it."""
        self._with_alone: set[int] = set()
        """Groups with a node of which a group has one at most."""
        self._first: dict[int, int] = {}
        """Node -> the group that it was put into."""
        self._became: dict[int, int] = {}

    def of(self, node: int) -> int | None:
        """The group that a node is in."""
        group = self._first.get(node)
        if group is None:
            return None
        passed = []
        while group in self._became:
            passed.append(group)
            group = self._became[group]
        for earlier in passed:
            self._became[earlier] = group
        return group

    def needed_for(self, node: int) -> int:
        """Bits of the groups that have to be done before what takes the node's result."""
        group = self.of(node)
        if group is None:
            return self.needed_of_others.get(node, 0)
        return self.before[group] | self.bits[group]

    def add(self, node: int, candidates: Sequence[int], behind: int, alone: bool) -> None:
        """Put a node into those of the groups that need not wait for what the node waits for, which become
        one; into a group of its own where there is none."""
        joined: list[int] = []
        for group in dict.fromkeys(candidates):
            if alone and group in self._with_alone:
                behind |= self.bits[group]
            elif not behind & self.bits[group]:
                joined.append(group)
                alone = alone or group in self._with_alone
        group = joined[0] if joined else self._new(node)
        self._first[node] = group
        self.members[group].append(node)
        self.before[group] |= behind
        for other in joined[1:]:
            self._merge(group, other)
        if alone:
            self._with_alone.add(group)

    def _new(self, node: int) -> int:
        self.members[node], self.bits[node], self.before[node] = [], 1 << len(self.bits), 0
        return node

    def _merge(self, group: int, other: int) -> None:
        few, many = sorted((self.members[group], self.members.pop(other)), key=len)
        many += few
        self.members[group] = many
        self.bits[group] |= self.bits[other]
        self.before[group] |= self.before[other]
        self._became[other] = group
