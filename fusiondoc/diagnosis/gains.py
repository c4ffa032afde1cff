"""What each change gains on the plans of a run (``unlocked.py``), and which changes
gain most: milliseconds where a profile has the bandwidth, bytes where the types are
known, operators else."""

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
"""Changes in a plan."""
MOST_TRIED = 12
"""Changes whose gain is worked out; those with most operators."""


@dataclass(frozen=True)
class Gain:
    """What changes let fuse."""

    operators: int
    bytes: int | None
    """That need not be written and read again; None where no type is known."""
    joined: int = 0
    """Groups of the run that become part of others."""

    @classmethod
    def of(cls, groups: Sequence[WouldBeGroup]) -> Gain:
        """What these groups gain."""
        sizes = [one.bytes_saved for one in groups if one.bytes_saved is not None]
        joined = sum(one.joined - 1 for one in groups if one.joined > 1)
        return cls(
            sum(len(one.ops) for one in groups),
            sum(sizes) if sizes else None,
            joined,
        )

    def less(self, other: Gain) -> Gain:
        """What is gained beyond another gain."""
        known = None if self.bytes is None else self.bytes - (other.bytes or 0)
        joined = self.joined - other.joined
        return Gain(self.operators - other.operators, known or None, joined)


@dataclass(frozen=True)
class Rated:
    """A change with what is lost without it."""

    change: Change
    gain: Gain
    groups: Sequence[WouldBeGroup]
    """The groups that it has part in."""
    instead: Brought | None = None
    """What it brings where the groups of the run are taken apart, if that is less
    than these groups."""

    @property
    def is_known(self) -> bool:
        """Whether the changed plan shows what it brings; else it is worth a try,
        and nothing is promised."""
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
        """How many more are in groups with it."""
        return (
            self.instead.operators
            if self.instead is not None
            else self.gain.operators
        )

    def counts_on(self, other: Rated) -> bool:
        """Whether another change makes some of the same groups."""
        changed = {row for group in self.groups for row in group.changed}
        return other is not self and not changed.isdisjoint(other.change.rows)

    @property
    def more_groups(self) -> int | None:
        """By how many groups the run has more with it; None where it makes none."""
        if self.instead is not None:
            return self.instead.groups
        return _more_groups(self.groups) if self.groups else None

    def milliseconds(self, report: Report) -> float | None:
        """Of a step: moving the bytes at the measured bandwidth, without it by the
        profile of the rows; None without a profile."""
        if report.steps is None:
            return None
        if report.steps.gb_per_s and self.gain.bytes is not None:
            return round(self.gain.bytes / (report.steps.gb_per_s * 1e6), 6)
        times = [report.unfused[row].time for row in self.change.rows]
        saved = [
            time.could_save_ms
            for time in times
            if time is not None and time.could_save_ms is not None
        ]
        return round(sum(saved), 6) if saved else None


PlansFor = Callable[[Sequence[Change]], Plans]
"""The plans of a run, for what these changes and no others would do to them."""


def best(
    found: Sequence[Change],
    plans_for: PlansFor,
    report: Report,
    rated_before: Sequence[Rated] = (),
) -> list[Rated]:
    """The changes that gain most. Changes of the program are done together, and
    what only several of them make counts for each; a change of the run, and one of
    how the program is built, stands for itself.

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
        together = left  # no promise counts on what is not shown


def _more_groups(groups: Iterable[WouldBeGroup]) -> int:
    """By how many groups the run has more with these; one that takes in two of the
    run makes them fewer."""
    return sum(1 - group.joined for group in groups)


def tried(rated: Sequence[Rated], plans_for: PlansFor) -> list[Rated]:
    """The changes, each tried where the groups of the run are taken apart: a change
    may part one of them, as a fuser makes one of neighbours that share no tensor,
    and what the change brings may have to run between these."""
    return [
        _tried(one, [other for other in rated if one.counts_on(other)], plans_for)
        for one in rated
    ]


def _tried(one: Rated, others: Sequence[Rated], plans_for: PlansFor) -> Rated:
    if not one.groups or not one.is_known or not one.change.rows:
        return one  # a print is in no row, and its plan shows already what goes with it
    changes = [one.change, *(other.change for other in others)]
    brought = plans_for(changes).brought_by(
        frozenset(row for change in changes for row in change.rows)
    )
    if brought is None:
        return one
    groups = {id(group): group for each in (one, *others) for group in each.groups}
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
"""More than a line changes, and the user has to see whether it can."""


def _stands_alone(one: Change) -> bool:
    return not one.kind.in_source or not one.sure or one.kind in _REBUILT


def _order(rated: Rated, report: Report) -> tuple[bool, bool, float, float, float]:
    """What is known comes first; then milliseconds where profiled, bytes, and
    operators, of which what depends on a condition counts half. Inference is not
    what every run is for."""
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
    """These changes done together, with what each gains, best first; without those
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
    """What a change gains that takes operators out of the program; None of
    another."""
    if not one.removes:
        return None
    rows = [
        report.unfused[row]
        for row in one.rows
        if report.unfused[row].op not in CONTROL_FLOW
    ]
    moved = sum(row.bytes_moved or 0 for row in rows)
    return Rated(one, Gain(sum(row.count for row in rows), moved or None), [])


def _on_the_plans(
    one: Change,
    every: AbstractSet[int],
    whole: Sequence[WouldBeGroup],
    plans: Plans,
    report: Report,
) -> Rated | None:
    """What all changes gain less what they gain without this one; None where no
    group changes. Where an operator of its line stays outside, all that is written
    for it does."""
    mine = set(one.rows)
    groups = [group for group in whole if not mine.isdisjoint(group.changed)]
    if not groups:
        return None
    gain = Gain.of(whole).less(Gain.of(plans.with_changes(every - mine)))
    inside = sum(row in mine for group in groups for row in group.written)
    more = (one.parts - 1) * max(
        0, sum(report.unfused[row].count for row in mine) - inside
    )
    if more:
        gain = replace(
            gain, operators=max(min(1, gain.operators), gain.operators - more)
        )
    return Rated(one, gain, groups)


def _by_what_is_kept_out(one: Change, report: Report) -> Rated | None:
    """What its operators keep out of groups, or what folds into convolutions."""
    kept = one.folded or sum(report.unfused[row].keeps_out or 0 for row in one.rows)
    return Rated(one, Gain(kept, None), []) if kept else None
