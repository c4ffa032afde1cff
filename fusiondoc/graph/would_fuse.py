"""Which nodes of a plan would be one group: they are joined as torch's fusion
passes join them, and never so that a group would have to wait for its own result
(as with a convolution between two of its operators).

Fusion passes work alike: from the end of a block backwards, each node pulls in the
nodes that it takes, the latest first, and nodes in between that wait for these are
moved behind it; this is repeated until nothing changes (``createFusionGroups`` and
``tryMerge`` of one pass of torch 1.12 to 2.13, ``scanNode`` of
torch/csrc/jit/codegen/cuda/graph_fuser.cpp of 1.12 to 2.1, ``AliasDb::tryMove``).
So an operator that two groups could take belongs to the later one.

Every question about fusion is answered here, each with other nodes free: how much
fusing operators could save, which groups a change makes, which operators an
operator keeps out of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from fusiondoc.graph import AnyNode, DependencyGraph
from fusiondoc.model import dataclass, field


@dataclass
class Limits:
    """Limits to joining free nodes, in addition to the detours between them."""

    inside: Sequence[int | None]
    """The branch, loop or region that contains each node: only nodes of one block
    are joined."""
    alone: AbstractSet[int] = frozenset()
    """Nodes of which a group has at most one."""
    pulled_in: AbstractSet[int] = frozenset()
    """Nodes that begin no group: they are pulled in by the only group that takes
    their result."""
    apart: Callable[[int, int], bool] = lambda maker, taker: False
    """Returns True if two nodes are not joined although a tensor goes from one to
    the other."""
    takes: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Node -> further nodes whose result it takes, without an edge of the plan."""
    waits: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Node -> nodes that have to run before it, but whose result it does not
    take."""
    skipped: AbstractSet[int] = frozenset()
    """Nodes that are removed."""
    at_last_use: bool = False
    """True if a node's turn is where its result is taken last, by any node: with
    gradients a separate node before each operator records the types of its inputs,
    and differentiable graphs take this node in (``prim::profile`` in
    torch/csrc/jit/passes/create_autodiff_subgraphs.cpp, 1.12 to 2.13)."""
    merges_neighbours: bool = False
    """True if groups of several nodes that follow each other are merged at last,
    even if no tensor goes from one to the other (the end of
    ``createFusionGroups``)."""
    divided: Callable[[int, int], bool] = lambda first, last: False
    """Returns True if something that no node is moved past is between two nodes."""
    take_lists: AbstractSet[int] = frozenset()
    """Nodes that count as a group of two when neighbours are merged, with the list
    that they take."""


class Fused(NamedTuple):
    """The groups that free nodes would be, including groups of one node; each in the
    order of the plan."""

    groups: list[list[int]]
    unmerged: list[list[int]]
    """The groups before neighbours are merged."""


def would_fuse(
    graph: DependencyGraph[AnyNode], free: Sequence[bool], limits: Limits
) -> list[list[int]]:
    """Return the groups that free nodes would be.

    Args:
        free: for each node whether it can be in a group.
    """
    return would_fuse_in_steps(graph, free, limits).groups


def would_fuse_in_steps(
    graph: DependencyGraph[AnyNode], free: Sequence[bool], limits: Limits
) -> Fused:
    """Return the same, also without the last step of the fuser."""
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
    for block in blocks.values():
        block.join()
    unmerged = _groups(blocks.values())
    if not limits.merges_neighbours:
        return Fused(unmerged, unmerged)
    for block in blocks.values():
        block.merge_neighbours()
    return Fused(_groups(blocks.values()), unmerged)


def _groups(blocks: Iterable[_Block]) -> list[list[int]]:
    groups: list[list[int]] = []
    for block in blocks:
        groups.extend(block.groups())
    return sorted(groups)


def _edges(
    graph: DependencyGraph[AnyNode], limits: Limits
) -> Iterator[tuple[int, int, bool]]:
    """Yield pairs of nodes of which the second needs the first, and whether it
    takes the first one's result."""
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
    """Return both nodes, or the branches, loops and regions of one block that
    contain them."""
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
        assert above is not None  # the outermost block contains every node
        node = above
    return around[inside[node]], node


class _Block:
    """The nodes of one block, which become groups. A group is identified by one of
    its nodes."""

    def __init__(self, limits: Limits) -> None:
        self._free: set[int] = set()
        """Nodes that can be in a group."""
        self._pulled_in = limits.pulled_in
        self._at_last_use = limits.at_last_use
        self._take_lists = limits.take_lists
        self._divided = limits.divided
        self._with_alone = set(limits.alone)
        """Groups with a node of which a group has at most one."""
        self._order: list[int] = []
        """Groups, and nodes in no group, in the order in which they would run."""
        self._position: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._needs: dict[int, set[int]] = {}
        """Group -> groups and nodes that have to run before it."""
        self._needed_by: dict[int, set[int]] = {}
        self._taken_by: dict[int, set[int]] = {}
        """Group -> the takers of its result; others may have to wait for it as
        well."""
        self._apart: dict[int, set[int]] = {}
        """Group -> those that it needs but is not joined with."""
        self._may_take_more: set[int] = set()
        """Groups whose inputs changed by a join since their last turn."""

    def add(self, node: int, free: bool) -> None:
        """Append a node to the block.

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
        """Record that a node needs another one. A value that a loop passes to its
        next step comes from a later node, and is not waited for.

        Args:
            takes: the taker takes the maker's result.
            joinable: both may be in one group.
        """
        if self._position[maker] > self._position[taker]:
            return
        self._needs[taker].add(maker)
        self._needed_by[maker].add(taker)
        if takes:
            self._taken_by[maker].add(taker)
        if not joinable:
            self._apart[taker].add(maker)

    def join(self) -> None:
        """Join the nodes that can be joined."""
        while self._join_from_the_end():
            pass

    def groups(self) -> Iterator[list[int]]:
        """Yield the groups, each in the order of the plan."""
        for group, members in self._members.items():
            if group in self._free:
                yield sorted(members)

    def _join_from_the_end(self) -> bool:
        """Join from the last group to the first; return True if anything was
        joined. Nodes that are moved behind a group have their turn the next
        time."""
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
        """Return the sort key of a group's turn: its position, or just before the
        last taker of its result."""
        own = self._position[group]
        if not self._at_last_use:
            return own, True
        last = max(
            (self._position[one] for one in self._needed_by[group]), default=own
        )
        if last > own:
            return last, False
        return own, True

    def merge_neighbours(self) -> None:
        """Merge groups that follow each other, if the later one can be moved before
        the earlier."""
        groups = []
        for one in self._order:
            if one in self._free and (
                len(self._members[one]) > 1 or one in self._take_lists
            ):
                groups.append(one)
        last: int | None = None
        for group in groups:
            if last is not None and self._may_merge(last, group):
                last = self._merge(last, group)
            else:
                last = group

    def _may_merge(self, earlier: int, later: int) -> bool:
        """True if a group, and the nodes that it waits for, can be moved before
        another group."""
        divided = self._divided(self._members[earlier][0], self._members[later][0])
        return not divided and not self._needs_in_any_way(later, earlier)

    def _needs_in_any_way(self, group: int, other: int) -> bool:
        """True if a group waits for another one, directly or through nodes in
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
        """Merge two groups at the position of the earlier. The nodes that the later
        waits for go before both."""
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
        """Return the latest node that a group takes and can be joined with; None if
        there is none. No other need of the group may need it too: that could run
        neither before nor after both."""
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
        """Join two groups. Nodes in between that wait for the maker go behind the
        new group.

        Returns:
            The group, and the nodes that go behind it.
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
        """Return the nodes of ``between`` that do not wait for ``maker``, and those
        that do."""
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
        """Move the edges of one part to the joined group."""
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
