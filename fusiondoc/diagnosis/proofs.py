"""Which changes the further runs of a capture (by ``fix`` and ``--try``) proved,
and which they refuted. A plan leaves refuted changes out and marks proved ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from fusiondoc.changes.change import Change
from fusiondoc.model.change_plan import (
    ChangeKind,
    ChangeOutcome,
    Edit,
    Fixes,
    PlannedChange,
    Proof,
    TriedFix,
    Try,
)
from fusiondoc.model.remedies import AS_REQUESTED, Setting
from fusiondoc.model.report import Report

BY_FIX, BY_TRY = "fusiondoc fix", "fusiondoc diagnose --try"


class Proofs:
    """The further runs of a capture, by their change.

    Args:
        fixes: the changes that ``fix`` tried; None if it did not run.
    """

    def __init__(self, report: Report, fixes: Fixes | None) -> None:
        self._tries = report.tries
        self._tried = fixes.tried if fixes is not None else ()
        self._kept = []
        for one in self._tried:
            if one.outcome is ChangeOutcome.KEPT:
                self._kept.append(one)
        self._kept_lines = _lines_of(self._kept)
        self._tried_lines = _lines_of(self._tried)

    def of(self, change: Change, report: Report) -> Proof | None:
        """Return the runs that proved a change; None if there are none.

        Args:
            report: that has the rows of the change.
        """
        if change.kind.in_source:
            if change.lines:
                return self._of_lines(change)
            return self._at_model(change, report, self._kept)
        return self.of_setting(change.setting)

    def of_setting(self, setting: Setting) -> Proof | None:
        """Return the runs that proved a setting of the run."""
        if setting == AS_REQUESTED:
            return None
        kept = _first(one for one in self._kept if one.setting == setting)
        if kept is not None:
            return by_fix(kept)
        tried = self._try_of(setting)
        if tried is None:
            return None
        base = self._tries[tried.against]
        if tried.helps(base):
            return _by_try(base, tried)
        return None

    def refutes(self, change: Change, report: Report) -> bool:
        """True if the change was run and fuses no more, fails, is slower or
        computes something else, and no other run with it helped."""
        if self.of(change, report) is not None:
            return False
        if not change.kind.in_source:
            return self.refutes_setting(change.setting)
        if change.lines:
            return self._tried_lines.issuperset(
                change.lines
            ) and self._kept_lines.isdisjoint(change.lines)
        return self._at_model(change, report, self._tried) is not None

    def beside(
        self, plan: Sequence[PlannedChange], lines: AbstractSet[Edit]
    ) -> Sequence[TriedFix]:
        """Return changes of lines that ``fix`` kept and that no change of a plan
        has.

        Args:
            lines: the edits of the plan.
        """
        proved = set()
        for planned in plan:
            if planned.proof is not None:
                proved.add(planned.proof.change)
        fixes = []
        for one in self._kept:
            if (
                one.edits
                and one.change not in proved
                and lines.isdisjoint(one.edits)
            ):
                fixes.append(one)
        return fixes

    def refutes_setting(self, setting: Setting) -> bool:
        """True if the setting was run and did not help."""
        if setting == AS_REQUESTED or self.of_setting(setting) is not None:
            return False
        tried = self._try_of(setting)
        return tried is not None or any(
            one.setting == setting for one in self._tried
        )

    def _of_lines(self, change: Change) -> Proof | None:
        """Return the proof if all lines of the change are among those that ``fix``
        kept."""
        if not self._kept_lines.issuperset(change.lines):
            return None
        first = change.lines[0]
        return by_fix(next(one for one in self._kept if first in one.edits))

    def _at_model(
        self, change: Change, report: Report, tried: Iterable[TriedFix]
    ) -> Proof | None:
        """Return the run that set ``inplace=False`` for these operators where the
        model is made, for modules that a package makes and whose lines are not
        available."""
        if change.kind is not ChangeKind.NOT_INPLACE:
            return None
        ops = {report.unfused[row].op for row in change.rows}
        found = _first(
            one
            for one in tried
            if one.kind is change.kind and ops.issubset(one.ops)
        )
        if found is None:
            return None
        return by_fix(found)

    def _try_of(self, setting: Setting) -> Try | None:
        return _first(one for one in self._tries[1:] if one.setting == setting)


T = TypeVar("T")


def _first(found: Iterable[T]) -> T | None:
    return next(iter(found), None)


def _lines_of(tried: Iterable[TriedFix]) -> frozenset[Edit]:
    edits: set[Edit] = set()
    for one in tried:
        edits.update(one.edits)
    return frozenset(edits)


def by_fix(one: TriedFix) -> Proof:
    """Return the proof of a change that ``fix`` kept."""
    before, after = one.before, one.after
    return Proof(
        BY_FIX,
        one.change,
        groups_before=before.groups,
        groups=after.groups,
        ops_fused_before=before.ops_fused,
        ops_fused=after.ops_fused,
        same_results=not after.wrong,
        speed=one.speed,
    )


def _by_try(base: Try, one: Try) -> Proof:
    return Proof(
        BY_TRY,
        one.change,
        groups_before=base.groups,
        groups=one.groups,
        ops_fused_before=base.ops_fused,
        ops_fused=one.ops_fused,
        same_results=None if one.wrong is None else not one.wrong,
        speed=one.speed,
    )
