"""The search of ``fix``: changes are tried one after the other on top of those
already kept; then those that did not help alone are tried again, several at once;
then slower changes are taken back.

Each changed program is run to see which operators fuse in it, whether its results
are the same, and how fast it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from fusiondoc.captures.request import RunRequest
from fusiondoc.changes.edits import TextEdit, overlapping
from fusiondoc.model import count, dataclass
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import (
    MOST_TOGETHER,
    ChangeOutcome,
    TriedFix,
    Version,
)
from fusiondoc.workflows.fix_bundles import ChangeBundle
from fusiondoc.workflows.fix_versions import Versions
from fusiondoc.workflows.run import Notify
from fusiondoc.workflows.speeds_in_turns import TimedAhead, speeds_in_turns


def _can_time(versions: Sequence[Version]) -> bool:
    """Whether the first version and another one can be timed."""
    return versions[0].timeable is not None and any(
        one.timeable is not None for one in versions[1:]
    )


def speeds_of(
    versions: Sequence[tuple[Version, RunRequest]], ahead: TimedAhead
) -> list[Ratio | None]:
    """The speed of each version relative to the first, timed in turns; None if it
    cannot be timed."""
    if not _can_time([version for version, _ in versions]):
        return [None] * len(versions)
    return speeds_in_turns(
        [(request, version.timeable) for version, request in versions], ahead
    )


MOST_TIMED_AHEAD = 3
"""Processes that warm up beside runs; each holds the memory of a model."""

_TIMED_WITH_NEXT = 2
"""Processes of the unchanged program and of the change being tried."""


class FixSearch:
    """Tries one change after the other on top of those that were kept."""

    def __init__(
        self,
        versions: Versions,
        original: tuple[Version, RunRequest],
        most_tries: int,
        timed: bool,
        notify: Notify,
    ) -> None:
        self._versions = versions
        self._left = most_tries
        self._timed = timed
        self._notify = notify
        self.original = original
        self._steps: list[KeptChange] = [KeptChange(ChangeBundle(), original, -1)]
        self.tried: list[TriedFix] = []
        self.untried = 0
        self._progress = ""
        """The number of the change being tried, for notes: `` 2 of 5``."""
        self.together_tries = 0
        """Runs of the second round."""
        self._ahead = TimedAhead(
            MOST_TIMED_AHEAD if timed and versions.side_by_side else 0
        )
        versions.make_room = self._make_room

    def run(self, found: Sequence[ChangeBundle]) -> None:
        """Try all bundles; those that did not help alone are tried again if
        operators changed after their try."""
        waiting: list[tuple[int, int, ChangeBundle]] = []
        rewritten = 0
        for number, bundle in enumerate(found, 1):
            self._progress = f" {number} of {len(found)}"
            no_gain = [one for _, _, one in waiting]
            self._versions.begin(self._expected(found[number - 1 :], no_gain))
            self._begin_timing_of_next(bundle)
            for one, index in self._try_whole(bundle):
                outcome = self.tried[index].outcome
                if outcome is ChangeOutcome.NO_GAIN:
                    waiting.append((rewritten, index, one))
                elif outcome is ChangeOutcome.KEPT and one.kind.in_source:
                    rewritten += 1
            self._ahead.end_others([step.version[1] for step in self._steps])
        self._progress = ""
        for before, index, bundle in waiting:
            if rewritten > before and self._left > 0:
                self._try(bundle, index)
        self._together([(index, one) for _, index, one in waiting])

    def _expected(
        self, found: Sequence[ChangeBundle], no_gain: Sequence[ChangeBundle]
    ) -> Iterator[tuple[ChangeBundle, str]]:
        """Predict the versions to measure: changes of source code are assumed to
        help alone, others at most together.

        Args: found: bundles that were not tried yet; ``no_gain``: bundles that did
            not help alone.
        """
        changes, others = (
            self._steps[-1].changes,
            [one for one in no_gain if _combines(one)],
        )
        for one in found:
            if overlapping([*changes.edits, *one.edits]):
                continue
            yield changes.plus(one), _name(one)
            if one.kind.in_source:
                changes = changes.plus(one)
            elif _combines(one):
                others.append(one)
        if len(others) > 1:
            together = ChangeBundle.of_all(others)
            yield changes.plus(together), _name(together)

    @property
    def edits(self) -> tuple[TextEdit, ...]:
        return self._steps[-1].changes.edits

    @property
    def settings(self) -> tuple[str, ...]:
        """The kept changes that are no edits: options of the command."""
        fuser = self._steps[-1].changes.setting.fuser
        if fuser is None:
            return ()
        return (f"--fuser {fuser}",)

    @property
    def now(self) -> tuple[Version, RunRequest]:
        """The version of the program with all kept changes."""
        return self._steps[-1].version

    def time(self) -> Ratio | None:
        """Time the program after each kept change, all in turns. If the last
        version is slower than the unchanged program in two measurements, keep only
        the changes up to the fastest version. Return the speed of the kept
        version."""
        if len(self._steps) == 1 or not self._timed:
            return None
        if _can_time([step.version[0] for step in self._steps]):
            self._notify("timing changes that fuse more, in turns and without logs")
        self._versions.end_ahead()  # they would disturb it
        speeds = speeds_of([step.version for step in self._steps], self._ahead)
        if speeds[-1] is not None and speeds[-1].high < 1:
            # If the host is the limit a round can be slow by chance, and a useful
            # change would be lost.
            self._notify(
                "timing it again: a change is dropped if it is slower twice"
            )
            self._begin_timing()
            speeds = speeds_of([step.version for step in self._steps], self._ahead)
        for step, speed in zip(self._steps[1:], speeds[1:]):
            self.tried[step.row] = replace(self.tried[step.row], speed=speed)
        last = speeds[-1]
        if last is None or last.high >= 1:
            return last
        best = max(range(len(speeds)), key=lambda index: _value(speeds[index]))
        for step in self._steps[best + 1 :]:
            self.tried[step.row] = replace(
                self.tried[step.row], outcome=ChangeOutcome.SLOWER
            )
        del self._steps[best + 1 :]
        return speeds[best]

    def _begin_timing(self) -> None:
        """Start the processes that time the kept versions, so that they warm up."""
        if _can_time([step.version[0] for step in self._steps]):
            for step in self._steps:
                self._ahead.begin(step.version[1], step.version[0].timeable)

    def _begin_timing_of_next(self, bundle: ChangeBundle) -> None:
        """Start processes that time a change of source code while it is run, so
        that they warm up, if cores are idle: a fuser compiles in them for as long
        as in the run."""
        fuser = self.original[0].timeable
        if (
            fuser is None
            or not bundle.kind.in_source
            or self._versions.room < _TIMED_WITH_NEXT
        ):
            return
        if overlapping([*self.edits, *bundle.edits]):
            return
        request = self._versions.request_of(
            self._steps[-1].changes.plus(bundle), _name(bundle)
        )
        if request is not None:
            self._ahead.begin(self.original[1], fuser)
            self._ahead.begin(request, fuser)

    def _make_room(self) -> None:
        self._versions.end_ahead()
        self._ahead.end_others()

    def close(self) -> None:
        """End the processes that were not needed."""
        self._ahead.close()

    def _try_whole(self, bundle: ChangeBundle) -> list[tuple[ChangeBundle, int]]:
        """Try all changes of a bundle at once; if that does not work, one by one.
        Return each bundle with its row."""
        index = self._try(bundle)
        if index is None:
            return []
        singly = bundle.singly()
        if (
            self.tried[index].outcome in (ChangeOutcome.KEPT, ChangeOutcome.NO_GAIN)
            or not singly
        ):
            return [(bundle, index)]
        del self.tried[index]
        rows = [(one, self._try(one)) for one in singly]
        return [(one, row) for one, row in rows if row is not None]

    # -- the second round -----------------------------------------------------------------------------------

    def _together(self, waiting: Sequence[tuple[int, ChangeBundle]]) -> None:
        """Try changes that did not help alone: each line of those that had some
        effect, then all changes at once, and two at a time if that fails or does
        harm."""
        for index, bundle in waiting:
            if self._outcome(
                index
            ) is ChangeOutcome.NO_GAIN and not self._did_nothing(index):
                for line in bundle.singly():
                    self._again(line)
        pool = self._pool(waiting)
        if len(pool) < 2:
            return
        made = self._again(ChangeBundle.of_all(pool))
        if made is ChangeOutcome.KEPT:
            self._without_each(pool)
        elif made is not None and len(pool) > 2:
            self._in_pairs(pool)

    def _pool(
        self, waiting: Sequence[tuple[int, ChangeBundle]]
    ) -> list[ChangeBundle]:
        """The changes that may help together: none of their lines is kept yet, and
        they do not exclude each other."""
        kept = set(self.edits)
        pool = []
        for index, bundle in waiting:
            if (
                self._outcome(index) is ChangeOutcome.NO_GAIN
                and _combines(bundle)
                and not kept & set(bundle.edits)
            ):
                pool.append(bundle)
        return list(_compatible(pool, self.edits))

    def _in_pairs(self, pool: Sequence[ChangeBundle]) -> None:
        """Try two at a time until a pair helps; neighbouring ones first."""
        numbers = sorted(
            combinations(range(len(pool)), 2), key=lambda pair: pair[1] - pair[0]
        )
        pairs = []
        for first, second in numbers:
            pairs.append(ChangeBundle.of_all([pool[first], pool[second]]))
        changes = self._steps[-1].changes
        self._versions.begin((changes.plus(pair), _name(pair)) for pair in pairs)
        for pair in pairs:
            if self._again(pair) is ChangeOutcome.KEPT:
                return

    def _outcome(self, row: int) -> ChangeOutcome:
        return self.tried[row].outcome

    def _did_nothing(self, row: int) -> bool:
        before, after = self.tried[row].before, self.tried[row].after
        return (before.launches, before.ops_fused) == (
            after.launches,
            after.ops_fused,
        )

    def _again(self, bundle: ChangeBundle) -> ChangeOutcome | None:
        """Try a bundle; delete its row unless it helps. None if there is nothing to
        try, or it changed nothing."""
        if self.together_tries >= MOST_TOGETHER or self._left <= 0:
            return None
        row = self._try(bundle)
        if row is None:
            return None
        self.together_tries += 1
        outcome, nothing = self._outcome(row), self._did_nothing(row)
        if outcome is not ChangeOutcome.KEPT:
            del self.tried[row]
        if outcome is ChangeOutcome.NO_GAIN and nothing:
            return None
        return outcome

    def _without_each(self, parts: Sequence[ChangeBundle]) -> None:
        """Leave each part out of the last step in turn, and drop the parts that it
        does not need."""
        left = list(parts)
        for one in parts:
            if (
                len(left) < 3
                or self.together_tries >= MOST_TOGETHER
                or self._left <= 0
            ):
                return
            fewer = ChangeBundle.of_all(
                [other for other in left if other is not one]
            )
            whole, before = self._steps[-1], self._steps[-2]
            wanted = before.changes.plus(fewer)
            self._left -= 1
            self.together_tries += 1
            self._notify(f"trying without: {one.title}")
            after, request = self._versions.measure(wanted, "without")
            good = (
                self._judged(fewer, after, before.version[0]) is ChangeOutcome.KEPT
            )
            if good and not whole.version[0].better_than(after):
                left.remove(one)
                self._steps[-1] = KeptChange(wanted, (after, request), whole.row)
                self.tried[whole.row] = self._tried(
                    fewer, ChangeOutcome.KEPT, before.version[0], after
                )

    # -- one run --------------------------------------------------------------------------------------------

    def _try(self, bundle: ChangeBundle, row: int | None = None) -> int | None:
        """Try a bundle and return its row in ``tried``: a new row, or ``row`` from
        an earlier try. None if the bundle no longer applies, or no tries are
        left."""
        if overlapping([*self.edits, *bundle.edits]):
            return None  # something that was kept has changed these lines already
        if bundle.about and not bundle.about & self.now[0].unfused:
            return None  # all operators it targets are fused by now
        if self.now[0].launches <= 1 and not self.now[0].fallbacks:
            return None  # one group has everything
        if self._left <= 0:
            self.untried += 1
            return None
        self._left -= 1
        self._notify(
            f"trying{self._progress if row is None else ' again'}: {bundle.title}"
        )
        before, wanted = self.now[0], self._steps[-1].changes.plus(bundle)
        after, request = self._versions.measure(wanted, _name(bundle))
        outcome = self._judged(bundle, after, before)
        done = self._tried(bundle, outcome, before, after)
        if row is None:
            self.tried.append(done)
            row = len(self.tried) - 1
        elif outcome is not ChangeOutcome.NO_GAIN:
            self.tried[row] = done
        if outcome is ChangeOutcome.KEPT:
            self._steps.append(KeptChange(wanted, (after, request), row))
            self._begin_timing()
            self._notify(
                f"proved: {bundle.title}: {before.groups} -> {count(after.groups, 'group')},"
                f" {before.ops_fused} -> {count(after.ops_fused, 'operator')} fused"
            )
        return row

    def _judged(
        self, bundle: ChangeBundle, after: Version, before: Version
    ) -> ChangeOutcome:
        if after.problem is not None:
            return ChangeOutcome.FAILED
        if set(after.wrong) - set(self.original[0].wrong):
            return ChangeOutcome.WRONG
        if after.better_than(before, bundle.replaces_by_several):
            return ChangeOutcome.KEPT
        return ChangeOutcome.NO_GAIN

    def _tried(
        self,
        bundle: ChangeBundle,
        outcome: ChangeOutcome,
        before: Version,
        after: Version,
    ) -> TriedFix:
        return TriedFix(
            bundle.kind,
            bundle.title,
            bundle.where,
            bundle.notes,
            outcome,
            before,
            after,
            edits=self._versions.lines_changed(bundle),
            ops=tuple(sorted(bundle.about)),
            setting=bundle.setting,
        )


@dataclass(frozen=True)
class KeptChange:
    """The program after a change that was kept; ``row`` is the index of the change
    in ``FixSearch.tried``."""

    changes: ChangeBundle
    version: tuple[Version, RunRequest]
    row: int


def _name(bundle: ChangeBundle) -> str:
    """Name of the folder of its run."""
    return bundle.kind.name.lower()


def _value(speed: Ratio | None) -> float:
    if speed is None:
        return 1.0
    return speed.value


def _combines(bundle: ChangeBundle) -> bool:
    """True if other changes may need it: not a change of the model's mode, and not
    another fuser."""
    return not bundle.setting.flags and bundle.setting.fuser is None


def _compatible(
    bundles: Sequence[ChangeBundle], edits: Sequence[TextEdit]
) -> Iterator[ChangeBundle]:
    """Yield the bundles, without those whose edits overlap those of an earlier
    one."""
    kept = list(edits)
    for one in bundles:
        if not overlapping([*kept, *one.edits]):
            kept += one.edits
            yield one
