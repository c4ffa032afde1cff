"""The gain of each change on the plans of a run (``unlocked.py``), and the changes
that gain most: in milliseconds if a profile has the bandwidth, in bytes if the
types are known, else in operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.unlocked import Brought, Plans, WouldBeGroup
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.report import Report
from fusiondoc.operators import CONTROL_FLOW

MOST = 3
"""Changes in a plan, at most."""
MOST_TRIED = 12
"""Changes whose gain is computed, at most: those with most operators."""


@dataclass(frozen=True)
class Gain:
    """The gain of changes."""

    operators: int
    bytes: int | None
    """Bytes that need not be written and read again; None if no type is known."""
    joined: int = 0
    """Groups of the run that become part of other groups."""

    @classmethod
    def of(cls, groups: Sequence[WouldBeGroup]) -> Gain:
        """Return the gain of these groups."""
        sizes = []
        for one in groups:
            if one.bytes_saved is not None:
                sizes.append(one.bytes_saved)
        joined = 0
        for one in groups:
            if one.joined > 1:
                joined += one.joined - 1
        return cls(
            sum(len(one.ops) for one in groups),
            sum(sizes) if sizes else None,
            joined,
        )

    def less(self, other: Gain) -> Gain:
        """Return this gain minus another one."""
        known = None if self.bytes is None else self.bytes - (other.bytes or 0)
        joined = self.joined - other.joined
        return Gain(self.operators - other.operators, known or None, joined)


@dataclass(frozen=True)
class Rated:
    """A change with the gain that is lost without it."""

    change: Change
    gain: Gain
    groups: Sequence[WouldBeGroup]
    """The new groups that need this change."""
    instead: Brought | None = None
    """The gain if the groups of the run are taken apart and formed again, where it
    is smaller than that of ``groups``."""

    @property
    def is_known(self) -> bool:
        """True if the changed plan shows the groups that the change makes; else it
        is worth a try, and nothing is promised."""
        one = self.change
        brings = bool(self.groups) or one.removes or bool(one.folded)
        return one.sure and self.groups_are_sure and brings

    @property
    def groups_are_sure(self) -> bool:
        if self.instead is not None and not (
            self.instead.sure and self.instead.fewer_launches > 0
        ):
            return False
        return all(group.sure for group in self.groups)

    @property
    def operators(self) -> int:
        """The number of operators that it brings into groups."""
        if self.instead is not None:
            return self.instead.operators
        return self.gain.operators

    def counts_on(self, other: Rated) -> bool:
        """True if another change makes some of the same groups."""
        changed: set[int] = set()
        for group in self.groups:
            changed.update(group.changed)
        return other is not self and not changed.isdisjoint(other.change.rows)

    @property
    def more_groups(self) -> int | None:
        """The number of groups that the run has more with it; None if it makes
        none."""
        if self.instead is not None:
            return self.instead.groups
        if self.groups:
            return _more_groups(self.groups)
        return None

    def milliseconds(self, report: Report) -> float | None:
        """Return the milliseconds of a step that it saves: the time to move its
        bytes at the measured bandwidth, or, without a bandwidth, by the profile of
        the rows; None without a profile."""
        if report.steps is None:
            return None
        if report.steps.gb_per_s and self.gain.bytes is not None:
            return round(self.gain.bytes / (report.steps.gb_per_s * 1e6), 6)
        times = [report.unfused[row].time for row in self.change.rows]
        saved = []
        for time in times:
            if time is not None and time.could_save_ms is not None:
                saved.append(time.could_save_ms)
        if saved:
            return round(sum(saved), 6)
        return None


PlansFor = Callable[[Sequence[Change]], Plans]
"""Returns the plans of a run on which the effect of exactly these changes is
computed."""


def best(
    found: Sequence[Change],
    plans_for: PlansFor,
    report: Report,
    rated_before: Sequence[Rated] = (),
) -> list[Rated]:
    """Return the changes that gain most, with their gains.

    Changes of the program are made together, and a gain that needs several of them
    counts for each; a change of the run, or of how the program is built, is rated
    alone.

    Args:
        rated_before: further changes, whose gain is known.
    """
    together = [one for one in found if not _stands_alone(one)]
    for most in (MOST_TRIED, MOST):
        together = [
            one.change
            for one in _rated(together, plans_for(together), report)[:most]
        ]
    others = list(rated_before)
    for one in found:
        if _stands_alone(one):
            others += _rated([one], plans_for([one]), report)
    while True:
        rated = [*_rated(together, plans_for(together), report), *others]
        rated.sort(key=lambda one: _order(one, report))
        shown = [one.change for one in rated[:MOST]]
        left = [one for one in together if one in shown]
        if len(left) == len(together):
            return rated[:MOST]
        together = left  # no promise may rest on a change that is not shown


def _more_groups(groups: Iterable[WouldBeGroup]) -> int:
    """Return how many groups the run has more with these; a group that joins two
    groups of the run makes it one fewer."""
    return sum(1 - group.joined for group in groups)


def tried(rated: Sequence[Rated], plans_for: PlansFor) -> list[Rated]:
    """Return the changes, each also tried with the groups of the run taken apart.

    A change may split such a group, as a fuser makes one group of neighbours that
    share no tensor, and the operators that the change brings may have to run
    between the two parts.
    """
    changes = []
    for one in rated:
        changes.append(
            _tried(
                one, [other for other in rated if one.counts_on(other)], plans_for
            )
        )
    return changes


def _tried(one: Rated, others: Sequence[Rated], plans_for: PlansFor) -> Rated:
    if not one.groups or not one.is_known or not one.change.rows:
        return one  # a print has no row; its plan already shows its groups
    changes = [one.change, *(other.change for other in others)]
    brought = plans_for(changes).brought_by(
        frozenset(row for change in changes for row in change.rows)
    )
    if brought is None:
        return one
    groups = {}
    for each in (one, *others):
        for group in each.groups:
            groups[id(group)] = group
    more = _more_groups(groups.values())
    if (
        brought.sure
        and brought.operators >= one.gain.operators
        and brought.groups <= more
    ):
        return one
    return replace(one, instead=replace(brought, sure=brought.sure and not others))


_REBUILT = (
    ChangeKind.MOVE_VIEW,
    ChangeKind.BRANCH,
    ChangeKind.CONSTANT,
    ChangeKind.SPLIT,
    ChangeKind.MOVE,
)
"""Kinds that change more than a line; the user has to see whether the change can be
made."""


def _stands_alone(one: Change) -> bool:
    return not one.kind.in_source or not one.sure or one.kind in _REBUILT


def _order(rated: Rated, report: Report) -> tuple[bool, bool, float, float, float]:
    """Return the sort key: known gains first; then milliseconds (if profiled),
    bytes and operators, each halved for a change that depends on a condition.
    Turning gradients off comes after other known gains, since not every run is for
    inference."""
    one, gain = rated.change, rated.gain
    weight = 0.5 if one.conditional else 1.0
    ms = (rated.milliseconds(report) or 0.0) * weight
    moved = (gain.bytes or 0) * weight
    operators = (gain.operators + gain.joined) * weight
    return (
        not rated.is_known,
        one.kind is ChangeKind.NO_GRAD,
        -ms,
        -moved,
        -operators,
    )


def _rated(found: Sequence[Change], plans: Plans, report: Report) -> list[Rated]:
    """Return the gains of these changes made together, best first; without those
    that gain nothing."""
    every = frozenset(row for one in found for row in one.rows if one.sure)
    whole = plans.with_changes(every)
    rated = []
    for one in found:
        gains = _of_removed(one, report) or _on_the_plans(
            one, every, whole, plans, report
        )
        gains = gains or _by_what_is_kept_out(one, report)
        if gains is not None:
            rated.append(gains)
    rated.sort(key=lambda one: _order(one, report))
    return rated


def _of_removed(one: Change, report: Report) -> Rated | None:
    """Return the gain of a change that removes operators from the program; None for
    another change."""
    if not one.removes:
        return None
    rows = []
    for row in one.rows:
        if report.unfused[row].op not in CONTROL_FLOW:
            rows.append(report.unfused[row])
    moved = sum(row.bytes_moved or 0 for row in rows)
    return Rated(one, Gain(sum(row.count for row in rows), moved or None), [])


def _on_the_plans(
    one: Change,
    every: AbstractSet[int],
    whole: Sequence[WouldBeGroup],
    plans: Plans,
    report: Report,
) -> Rated | None:
    """Return the gain of all changes minus their gain without this one; None if no
    group changes. If an operator of its line stays outside groups, the operators
    that replace it count as outside, too."""
    mine = set(one.rows)
    groups = [group for group in whole if not mine.isdisjoint(group.changed)]
    if not groups:
        return None
    gain = Gain.of(whole).less(Gain.of(plans.with_changes(every - mine)))
    inside = 0
    for group in groups:
        for row in group.written:
            if row in mine:
                inside += 1
    more = (one.parts - 1) * max(
        0, sum(report.unfused[row].count for row in mine) - inside
    )
    if more:
        gain = replace(
            gain, operators=max(min(1, gain.operators), gain.operators - more)
        )
    return Rated(one, gain, groups)


def _by_what_is_kept_out(one: Change, report: Report) -> Rated | None:
    """Return the gain counted in the operators that its operators keep out of
    groups, or in those that are folded into convolutions."""
    kept = one.folded or sum(report.unfused[row].keeps_out or 0 for row in one.rows)
    if kept:
        return Rated(one, Gain(kept, None), [])
    return None
