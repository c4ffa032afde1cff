"""Assigns the groups of a report to expectations, once for all expectations of a
section: a group that fulfils one is not the near miss of another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from fusiondoc.alignment import common
from fusiondoc.expectations import GroupExpectation, RequiredSpeed, instances_in
from fusiondoc.expectations.near_miss import Near, by_nearness, mismatches
from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Group, Kernel, Report


@dataclass
class Matched:
    """An expectation of a group with the groups that match it."""

    wanted: GroupExpectation
    groups: tuple[Group, ...]
    """The groups that fulfil it, each represented by its first specialisation,
    without duplicates."""
    number: int
    """Their number, counted over instances."""
    nearest: Group | None = None
    """If too few groups fulfil it: the most likely candidate among those that
    fulfil nothing."""

    @property
    def lacking(self) -> int:
        """Number of groups that are missing."""
        return max(0, (self.wanted.count.at_least or 0) - self.number)

    @property
    def more(self) -> int:
        """Number of groups beyond the required ones."""
        return max(0, self.number - (self.wanted.count.at_least or 0))

    @property
    def is_whole(self) -> bool:
        """Whether it names all operators of the group."""
        return bool(self.wanted.ops) and self.wanted.order != "contains"


@dataclass
class Assignment:
    """The groups of a report, each with the expectation to which it is assigned."""

    matched: list[Matched]
    free: dict[str, set[int]] = field(default_factory=dict)
    """Group (each first specialisation) -> its instances that fulfil no
    expectation."""
    surplus: dict[str, set[int]] = field(default_factory=dict)
    """Group -> its instances that fulfil an expectation which has enough without
    them: one of these may be the rest of a group that another expectation lacks."""

    @property
    def claimed(self) -> frozenset[str]:
        """Groups of which all instances fulfil an expectation."""
        names = set()
        for name, instances in self.free.items():
            if not instances:
                names.add(name)
        return frozenset(names)


def assign(wanted: Sequence[GroupExpectation], report: Report) -> Assignment:
    """Match every expectation with the groups that fulfil it and, if these are too
    few, with the nearest of the other groups.

    A group may fulfil several expectations. An expectation with ``contains``, or
    without operators, claims only as many groups as it needs: one of the others may
    be the group that another expectation lacks.
    """
    known = {group.id: group for group in report.groups}
    kernels = {kernel.id: kernel for kernel in report.kernels}
    matched = []
    for expectation in wanted:
        fulfil = []
        for group in report.groups:
            if not mismatches(group, expectation, kernels):
                fulfil.append(_first(group, known))
        heads = tuple({head.id: head for head in fulfil}.values())
        number = sum(len(instances_in(head, expectation.layer)) for head in heads)
        if not expectation.layer:
            number += sum(head.instances_left_out for head in heads)
        matched.append(Matched(expectation, heads, number))
    free = {}
    for group in report.groups:
        if _first(group, known) is group:
            free[group.id] = set(range(len(group.instances)))
    found = Assignment(matched, free)
    _claim(found)
    _give_nearest(found, report)
    return found


def specialised_once(report: Report) -> int:
    """Number of groups: instances, each counted once regardless of its
    specialisations."""
    listed = 0
    for group in report.groups:
        if group.respecialises is None:
            listed += group.count
    return listed + report.fusion_groups_left_out


def with_instances(group: Group, indices: Sequence[int]) -> Group:
    """The group with only some of its instances."""
    return replace(
        group,
        instances=tuple(group.instances[index] for index in indices),
        instances_left_out=0,
    )


def _first(group: Group, known: dict[str, Group]) -> Group:
    """The group to which a specialisation belongs."""
    return known.get(group.respecialises or group.id, group)


def _claim(found: Assignment) -> None:
    """Remove claimed instances from the free ones. An expectation that names all
    operators claims all groups that fulfil it; the others then claim as many as
    they need, preferring groups that no unfulfilled expectation could use."""
    claiming = []
    for matched in found.matched:
        if matched.wanted.count.at_most != 0:
            claiming.append(matched)
    needed: dict[str, set[int]] = {name: set() for name in found.free}
    for matched in claiming:
        if matched.is_whole:
            _claim_all(matched, found.free, needed)
    hungry = []
    for matched in found.matched:
        if matched.lacking:
            hungry.append(matched.wanted)
    for matched in claiming:
        if not matched.is_whole:
            _claim_needed(matched, found.free, needed, hungry)
    for matched in claiming:
        for group in matched.groups if matched.is_whole else ():
            found.surplus[group.id] = (
                _instances(group, matched.wanted)
                - needed[group.id]
                - found.free[group.id]
            )


def _claim_all(
    matched: Matched, free: Mapping[str, set[int]], needed: Mapping[str, set[int]]
) -> None:
    """Claim all instances that fulfil an expectation; only as many as it needs are
    marked as needed."""
    more = matched.more if matched.wanted.count.at_most is None else 0
    need = matched.number - more
    for group in matched.groups:
        inside = sorted(_instances(group, matched.wanted))
        free[group.id].difference_update(inside)
        needed[group.id].update(inside[: max(0, need)])
        need -= len(inside)


def _claim_needed(
    matched: Matched,
    free: Mapping[str, set[int]],
    needed: Mapping[str, set[int]],
    hungry: Sequence[GroupExpectation],
) -> None:
    """Claim as many instances as an expectation needs beside those already claimed;
    first of the groups least similar to the groups that unfulfilled expectations
    lack."""
    need = matched.wanted.count.at_least or 0
    left: list[tuple[float, Group, int]] = []
    for group in matched.groups:
        likeness = max((_likeness(group, other) for other in hungry), default=0.0)
        for index in sorted(_instances(group, matched.wanted)):
            if index in free[group.id]:
                left.append((likeness, group, index))
            else:
                need -= 1
    left.sort(key=lambda row: row[0])
    for _, group, index in left[: max(0, need)]:
        free[group.id].discard(index)
        needed[group.id].add(index)


def _instances(group: Group, wanted: GroupExpectation) -> set[int]:
    """Indices of the instances of a group that count for an expectation."""
    inside = set(map(id, instances_in(group, wanted.layer)))
    instances = set()
    for index, instance in enumerate(group.instances):
        if id(instance) in inside:
            instances.add(index)
    return instances


def _likeness(group: Group, wanted: GroupExpectation) -> float:
    """Share of operators in common, from 0 to 1."""
    total = len(group.ops) + len(wanted.ops)
    if total:
        return 2 * common(group.ops, wanted.ops) / total
    return 0.0


def _give_nearest(found: Assignment, report: Report) -> None:
    """Give each expectation that lacks groups the nearest of the groups that are
    left. A group goes to at most as many expectations as it has free instances.

    Every expectation proposes to the groups in the order of their nearness; a group
    keeps the most similar proposals (stable matching, Gale and Shapley 1962).
    """
    kernels = {kernel.id: kernel for kernel in report.kernels}
    known = {group.id: group for group in report.groups}
    proposals: dict[int, Iterator[Near]] = {}
    for index, matched in enumerate(found.matched):
        if matched.lacking:
            matched.nearest = _only_too_slow(matched.wanted, report, kernels)
            if matched.nearest is None:
                proposals[index] = _in_question(matched, found, report, kernels)
    kept: dict[str, list[tuple[float, int, int]]] = {}
    waiting = deque(proposals)
    while waiting:
        index = waiting.popleft()
        near = next(proposals[index], None)
        found.matched[index].nearest = near.group if near is not None else None
        if near is None:
            continue
        head = _first(near.group, known).id
        row = kept.setdefault(head, [])
        row.append(
            (
                _likeness(near.group, found.matched[index].wanted),
                -near.failed,
                -index,
            )
        )
        if len(row) > len(found.free.get(head, ())) + len(
            found.surplus.get(head, ())
        ):
            last = min(row)
            row.remove(last)
            waiting.append(-last[2])


def _in_question(
    matched: Matched,
    found: Assignment,
    report: Report,
    kernels: Mapping[str, Kernel],
) -> Iterator[Near]:
    """The groups that may have been the expected one, nearest first: free groups,
    then surplus groups of other expectations."""
    known = {group.id: group for group in report.groups}
    own = {group.id for group in matched.groups}
    free, taken, more = [], [], []
    for group in report.groups:
        head = _first(group, known).id
        if not found.free.get(head):
            taken.append(group)
        elif head not in own:
            free.append(group)
        if found.surplus.get(group.id) and group.id not in own:
            more.append(with_instances(group, sorted(found.surplus[group.id])))
    return chain(
        _likely(by_nearness(free, matched.wanted, kernels), matched.wanted, taken),
        _likely(by_nearness(more, matched.wanted, kernels), matched.wanted, taken),
    )


def _only_too_slow(
    wanted: GroupExpectation, report: Report, kernels: Mapping[str, Kernel]
) -> Group | None:
    """The group that meets the whole expectation, except for its speed; it may
    fulfil other expectations too."""
    if wanted.speed == RequiredSpeed():
        return None
    for g in report.groups:
        if {m.what for m in mismatches(g, wanted, kernels)} == {"speed"}:
            return g
    return None


def _likely(
    nearest: Iterator[Near], wanted: GroupExpectation, taken: Sequence[Group]
) -> Iterator[Near]:
    """The groups that may have been the expected one. A group with less than half
    of its operators is left out if a group that fulfils another expectation has
    more of them: they only share a common operator."""
    most = max(
        (common(ops, wanted.ops) for ops in {group.ops for group in taken}),
        default=0,
    )
    for near in nearest:
        if 2 * near.shared < len(wanted.ops) and near.shared < most:
            return
        yield near
