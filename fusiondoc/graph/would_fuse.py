"""Which nodes of a plan would be one group: as the fusion passes of torch join
them, and never so that a group would have to wait for its own result (a convolution
between two of its operators).

Fusion passes work alike: from the end of a block backwards, each node pulls in what
it takes, the latest first, and what stands between and waits for that is moved
behind it; again and again until nothing changes (``createFusionGroups`` and
``tryMerge`` of one pass of torch 1.12 to 2.13, ``scanNode`` of
torch/csrc/jit/codegen/cuda/graph_fuser.cpp of 1.12 to 2.1, ``AliasDb::tryMove``).
So an operator that two groups could take belongs to the later one.

All questions of what would fuse with what are this one, with other nodes free: what
fusing operators could save, what a change lets fuse, what an operator keeps out of
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush

from fusiondoc.graph import AnyNode, Graph
from fusiondoc.model import dataclass, field


@dataclass
class Limits:
    """What keeps free nodes apart, beside the ways between them."""

    inside: Sequence[int | None]
    """The branch, loop or region that each node stands in: only nodes of one block
    are joined."""
    alone: AbstractSet[int] = frozenset()
    """Nodes of which a group has one at most."""
    pulled_in: AbstractSet[int] = frozenset()
    """Nodes that begin no group: the only group that takes their result pulls them
    in."""
    apart: Callable[[int, int], bool] = lambda maker, taker: False
    """Whether two nodes are not joined, though a tensor goes from one to the
    other."""
    takes: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Node -> nodes whose result it takes as well, on no edge of the plan."""
    waits: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Node -> nodes that have to run before it, whose result it does not take."""
    skipped: AbstractSet[int] = frozenset()
    """Nodes that go."""
    at_last_use: bool = False
    """A node is looked at where its result is taken last, whatever takes it there:
    with gradients the type of what an operator takes is noted before it by a node
    of its own, which differentiable graphs take in (``prim::profile`` in
    torch/csrc/jit/passes/create_autodiff_subgraphs.cpp, 1.12 to 2.13)."""
    merges_neighbours: bool = False
    """Whether groups of several nodes that follow each other become one at last,
    though nothing goes from one to the other (the end of
    ``createFusionGroups``)."""
    divided: Callable[[int, int], bool] = lambda first, last: False
    """Whether something that nothing is moved past stands between two nodes."""
    take_lists: AbstractSet[int] = frozenset()
    """Nodes that are a group of two for that, with the list that they take."""


def would_fuse(
    graph: Graph[AnyNode], free: Sequence[bool], limits: Limits
) -> list[list[int]]:
    """The groups that free nodes would be, of one node too: each in the order of
    the plan.

    Args:
        free: for each node whether it can be in a group.
    """
    blocks: dict[int | None, _Block] = {}
    for node in graph.run_order():
        if node in limits.skipped:
            continue
        inside = limits.inside[node]
        if inside not in blocks:
            blocks[inside] = _Block(limits)
        blocks[inside].add(node, free[node])
    for maker, taker, takes in _edges(graph, limits):
        first, last = _in_one_block(maker, taker, limits.inside)
        if first != last:
            joinable = (
                takes
                and (first, last) == (maker, taker)
                and not limits.apart(maker, taker)
            )
            blocks[limits.inside[last]].connect(first, last, takes, joinable)
    found: list[list[int]] = []
    for block in blocks.values():
        found += block.joined(limits.merges_neighbours)
    return sorted(found)


def _edges(
    graph: Graph[AnyNode], limits: Limits
) -> Iterator[tuple[int, int, bool]]:
    """Two nodes of which the second needs the first, and whether it takes its
    result."""
    for taker, makers in enumerate(graph.before):
        if taker in limits.skipped:
            continue
        for maker in (*makers, *limits.takes.get(taker, ())):
            if maker not in limits.skipped:
                yield maker, taker, True
        for earlier in limits.waits.get(taker, ()):
            if earlier not in limits.skipped:
                yield earlier, taker, False


def _in_one_block(
    maker: int, taker: int, inside: Sequence[int | None]
) -> tuple[int, int]:
    """Both nodes, or the branches, loops and regions of one block that they stand
    in."""
    if inside[maker] == inside[taker]:
        return maker, taker
    around: dict[int | None, int] = {}
    node: int | None = maker
    while node is not None:
        around[inside[node]] = node
        node = inside[node]
    node = taker
    while inside[node] not in around:
        above = inside[node]
        assert above is not None  # the outermost block is around every node
        node = above
    return around[inside[node]], node


class _Block:
    """The nodes of one block, which become groups. A group is named by one of its
    nodes."""

    def __init__(self, limits: Limits) -> None:
        self._free: set[int] = set()
        """Nodes that can be in a group."""
        self._pulled_in = limits.pulled_in
        self._at_last_use = limits.at_last_use
        self._take_lists = limits.take_lists
        self._divided = limits.divided
        self._with_alone = set(limits.alone)
        """Groups with a node of which a group has one at most."""
        self._order: list[int] = []
        """Groups, and nodes that are in none, in the order in which they would
        run."""
        self._position: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._needs: dict[int, set[int]] = {}
        """Group -> what has to run before it."""
        self._needed_by: dict[int, set[int]] = {}
        self._taken_by: dict[int, set[int]] = {}
        """Group -> what takes its result; more may need to wait for it."""
        self._apart: dict[int, set[int]] = {}
        """Group -> what it needs, and is not joined with."""
        self._may_take_more: set[int] = set()
        """Groups that take something which was joined since they were last looked
        at."""

    def add(self, node: int, free: bool) -> None:
        """Put a node behind those before it.

        Args:
            free: it can be in a group.
        """
        self._position[node] = len(self._order)
        self._order.append(node)
        self._members[node] = [node]
        if free:
            self._free.add(node)
            self._may_take_more.add(node)
        for edges in (self._needs, self._needed_by, self._taken_by, self._apart):
            edges[node] = set()

    def connect(self, maker: int, taker: int, takes: bool, joinable: bool) -> None:
        """A node needs another one; ``takes``: its result; ``joinable``: both may
        be in one group. What a loop hands to its next step comes from behind, and
        is not waited for."""
        if self._position[maker] > self._position[taker]:
            return
        self._needs[taker].add(maker)
        self._needed_by[maker].add(taker)
        if takes:
            self._taken_by[maker].add(taker)
        if not joinable:
            self._apart[taker].add(maker)

    def joined(self, merges_neighbours: bool) -> list[list[int]]:
        """Join what can be joined; the groups, each in the order of the plan."""
        while self._join_from_the_end():
            pass
        if merges_neighbours:
            self._merge_neighbours()
        return [
            sorted(members)
            for group, members in self._members.items()
            if group in self._free
        ]

    def _join_from_the_end(self) -> bool:
        """Whether anything was joined, from the last group to the first. What is
        moved behind a group is looked at the next time."""
        changed = False
        todo = sorted(self._may_take_more, key=self._turn)
        left = set(todo)
        while left:
            group = todo.pop()
            if group not in left:
                continue
            left.discard(group)
            maker = self._next_to_join(group)
            if maker is None:
                self._may_take_more.discard(group)
                continue
            joined, moved = self._join(maker, group)
            left.difference_update(moved, (maker,))
            left.add(joined)
            todo.append(joined)
            changed = True
        return changed

    def _turn(self, group: int) -> tuple[int, bool]:
        """Where it is looked at: at its position, or just before what takes its
        result last."""
        own = self._position[group]
        if not self._at_last_use:
            return own, True
        last = max(
            (self._position[one] for one in self._needed_by[group]), default=own
        )
        return (last, False) if last > own else (own, True)

    def _merge_neighbours(self) -> None:
        """Make one group of those that follow each other, where the later can be
        moved before the earlier."""
        groups = [
            one
            for one in self._order
            if one in self._free
            and (len(self._members[one]) > 1 or one in self._take_lists)
        ]
        last: int | None = None
        for group in groups:
            last = (
                self._merge(last, group)
                if last is not None and self._may_merge(last, group)
                else group
            )

    def _may_merge(self, earlier: int, later: int) -> bool:
        """Whether a group, and what it waits for, can be moved before another
        one."""
        divided = self._divided(self._members[earlier][0], self._members[later][0])
        return not divided and not self._needs_in_any_way(later, earlier)

    def _needs_in_any_way(self, group: int, other: int) -> bool:
        """Whether a group waits for another one, also through what stands
        between."""
        todo, seen = [group], {group}
        first = self._position[other]
        while todo:
            for need in self._needs[todo.pop()]:
                if need == other:
                    return True
                if need not in seen and self._position[need] > first:
                    seen.add(need)
                    todo.append(need)
        return False

    def _merge(self, earlier: int, later: int) -> int:
        """Make a group of two, in the place of the earlier. What the later waits
        for goes before both."""
        start, end = self._position[earlier], self._position[later]
        between = self._order[start + 1 : end]
        needed, todo = set[int](), [later]
        while todo:
            for need in self._needs[todo.pop()]:
                if need not in needed and start < self._position[need] < end:
                    needed.add(need)
                    todo.append(need)
        first = [one for one in between if one in needed]
        rest = [one for one in between if one not in needed]
        self._order[start : end + 1] = [*first, earlier, *rest]
        self._position.update(
            zip(self._order[start:], range(start, len(self._order)))
        )
        self._members[earlier] += self._members.pop(later)
        self._take_edges(later, earlier)
        return earlier

    def _next_to_join(self, group: int) -> int | None:
        """What a group takes and can be joined with, the latest of several. Nothing
        else that the group needs may need it too: that could run neither before nor
        after both."""
        if self._is_pulled_in(group):
            return None
        needs = self._needs[group]
        left = {maker for maker in needs if self._may_join(maker, group)}
        todo = [-self._position[one] for one in needs]
        heapify(todo)
        seen = set(needs)
        while todo and left:  # from the latest need to the earliest
            need = self._order[-heappop(todo)]
            if need in left:
                return need
            for one in self._needs[need]:
                left.discard(one)
                if one not in seen:
                    seen.add(one)
                    heappush(todo, -self._position[one])
        return None

    def _may_join(self, maker: int, group: int) -> bool:
        if maker not in self._free or maker in self._apart[group]:
            return False
        if self._is_pulled_in(maker) and len(self._taken_by[maker]) > 1:
            return False
        return not (maker in self._with_alone and group in self._with_alone)

    def _is_pulled_in(self, group: int) -> bool:
        return group in self._pulled_in and len(self._members[group]) == 1

    def _join(self, maker: int, group: int) -> tuple[int, Sequence[int]]:
        """Make a group of both. What waits for the maker and stands between goes
        behind it.

        Returns:
            The group, and what goes behind it.
        """
        start, end = self._position[maker], self._position[group]
        # The one with fewer edges becomes part of the other: many nodes may take
        # one result.
        fewer = len(self._needed_by[maker]) < len(self._needed_by[group]) + len(
            self._needs[group]
        )
        joined, other = (group, maker) if fewer else (maker, group)
        stay, moved = self._waiting(maker, self._order[start + 1 : end])
        self._order[start : end + 1] = [*stay, joined, *moved]
        self._position.update(
            zip(self._order[start:], range(start, len(self._order)))
        )
        self._members[joined] += self._members.pop(other)
        if other in self._with_alone:
            self._with_alone.add(joined)
        self._take_edges(other, joined)
        self._may_take_more.discard(other)
        self._may_take_more.add(joined)
        self._may_take_more |= self._needed_by[joined] & self._free
        return joined, moved

    def _waiting(
        self, maker: int, between: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """What stands behind a node and does not wait for it, and what does."""
        if self._needed_by[maker].issuperset(
            between
        ):  # many nodes may take one result
            return (), between
        stay: list[int] = []
        moved: list[int] = []
        waiting = {maker}
        for one in between:
            if self._needs[one].isdisjoint(waiting):
                stay.append(one)
            else:
                waiting.add(one)
                moved.append(one)
        return stay, moved

    def _take_edges(self, other: int, joined: int) -> None:
        """What needs one part of a group needs the group, which needs what its
        parts needed."""
        self._needs[joined].discard(other)
        self._needed_by[joined].discard(other)
        for one in self._needs.pop(other) - {joined}:
            self._needed_by[one].discard(other)
            self._needed_by[one].add(joined)
            self._needs[joined].add(one)
        for one in self._needed_by.pop(other) - {joined}:
            self._needs[one].discard(other)
            self._needs[one].add(joined)
            self._needed_by[joined].add(one)
            if other in self._apart[one]:
                self._apart[one].add(joined)
        self._apart[joined] |= self._apart.pop(other)
        self._taken_by[joined] |= self._taken_by.pop(other)
        self._taken_by[joined].difference_update((other, joined))
        for one in self._needs[joined]:
            if other in self._taken_by[one]:
                self._taken_by[one].discard(other)
                self._taken_by[one].add(joined)
