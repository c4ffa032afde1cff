"""The groups that a model lost from one run to the next.

A group is known by its phase and operators, whatever its lines are. Of groups that
are not there any more, those are lost whose operators are in fewer groups now:
where the later run has as many of these operators in groups, the group was joined
with others, split or written at other lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from fusiondoc.model.history_answers import LostGroup
from fusiondoc.model.run_lines import FAILED, GroupLine, OutsideLine, RunLine

MOST_REASONS = 4
"""Reasons of a loss that are named."""


class Key(NamedTuple):
    """The identity of a group in all runs."""

    phase: str | None
    ops: tuple[str, ...]
    """Sorted: the order of independent operators has no meaning."""


def key_of(group: GroupLine | LostGroup) -> Key:
    """Return the key of a group."""
    return Key(group.phase, tuple(sorted(group.ops)))


def lost_groups(runs: Sequence[RunLine]) -> tuple[LostGroup, ...]:
    """Return the losses, newest first; each with the run in which the group came
    back.

    Args:
        runs: of one model, device, fuser and setting, oldest first. A run that
            ended early is left out.
    """
    whole = []
    for run in runs:
        if not run.ended_early and run.status != FAILED:
            whole.append(run)
    found: list[LostGroup] = []
    for before, after in pairwise(whole):
        found = [_if_back(lost, after) for lost in found]
        found += _lost_between(before, after)
    return tuple(sorted(found, key=lambda lost: lost.date, reverse=True))


def _lost_between(before: RunLine, after: RunLine) -> Iterator[LostGroup]:
    if before.groups == after.groups:
        return
    counts = Counter({key_of(group): group.count for group in after.groups})
    fewer = _operators(before) - _operators(after)
    more_outside = _outside(after) - _outside(before)
    gained = _Gained(before, after)
    for group in before.groups:
        missing = group.count - counts[key_of(group)]
        if missing <= 0 or _knows_no_backward(group, after):
            continue
        if not any(fewer[group.phase, op] for op in group.ops):
            continue
        missing -= gained.joined(group, missing)
        if not missing:
            continue
        reasons = _reasons(group, more_outside)
        why = []
        for row in reasons[:MOST_REASONS]:
            why.append(f"{row.op.rpartition('::')[2]} {row.code}")
        yield LostGroup(
            ops=group.ops,
            phase=group.phase,
            at=_first_line(group),
            count=missing,
            date=after.date,
            commit=after.commit,
            last_date=before.date,
            last_commit=before.commit,
            why=tuple(why),
            changed=changes_between(before, after),
        )


class _Gained:
    """Groups that a run has and the one before it had not. Instances are removed as
    lost groups are found in them."""

    def __init__(self, before: RunLine, after: RunLine) -> None:
        counts = Counter({key_of(group): group.count for group in before.groups})
        self._left: list[tuple[str | None, Counter[str]]] = []
        for group in after.groups:
            for _ in range(group.count - counts[key_of(group)]):
                self._left.append((group.phase, Counter(group.ops)))

    def joined(self, group: GroupLine, instances: int) -> int:
        """Return how many instances of a group are contained in the gained groups,
        and remove these instances."""
        ops = Counter(group.ops)
        found = 0
        for phase, left in self._left:
            while found < instances and phase == group.phase and not ops - left:
                left.subtract(ops)
                found += 1
        return found


def _first_line(group: GroupLine) -> str | None:
    """Its first line in the program, rather than one of an autodiff formula."""
    own = [line for line in group.lines if not line.startswith("<string>")]
    if own:
        return own[0]
    return None


def _knows_no_backward(group: GroupLine, after: RunLine) -> bool:
    """True if the later run had no backward pass, and so none of its groups."""
    return group.phase == "backward" and after.backward is not True


def _operators(run: RunLine) -> Counter[tuple[str | None, str]]:
    """(phase, operator) -> how many are in groups."""
    found: Counter[tuple[str | None, str]] = Counter()
    for group in run.groups:
        for op in group.ops:
            found[group.phase, op] += group.count
    return found


def _outside(run: RunLine) -> Counter[tuple[str | None, str, str]]:
    """(phase, operator, code of the reason) -> how many are in no group."""
    found: Counter[tuple[str | None, str, str]] = Counter()
    for row in run.outside:
        found[row.phase, row.op, row.code] += row.count
    return found


def _reasons(
    group: GroupLine, more: Counter[tuple[str | None, str, str]]
) -> list[OutsideLine]:
    """Return the operators of the group that are outside groups more often now, the
    most frequent first. If there are none, the group's operators were replaced by
    others: then all operators that are outside more often."""
    of_phase = []
    for (phase, op, code), number in more.items():
        if phase == group.phase:
            of_phase.append(OutsideLine(phase, op, code, number))
    own = [row for row in of_phase if row.op in group.ops]
    return sorted(own or of_phase, key=lambda row: (-row.count, row.op, row.code))


def changes_between(before: RunLine, after: RunLine) -> tuple[str, ...]:
    """The versions that differ between two runs: ``torch 2.1.2 to 2.2.0``."""
    found = []
    for name in ("torch", "fusiondoc"):
        values = getattr(before, name), getattr(after, name)
        if None not in values and values[0] != values[1]:
            found.append(f"{name} {values[0]} to {values[1]}")
    return tuple(found)


def _if_back(lost: LostGroup, run: RunLine) -> LostGroup:
    """Return the loss, with the run added if that is the first that has the group
    again."""
    if lost.back_date is not None:
        return lost
    if not any(key_of(group) == key_of(lost) for group in run.groups):
        return lost
    return replace(lost, back_date=run.date, back_commit=run.commit)
