"""From a target to a diff: changes found, tried, and kept where they help. (named as cli/fix.py: its work)

``diagnose --try-fixes``: what ``fix`` tries of a run, as rows of the table of tries.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Iterable, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Place, Within
from fusiondoc.errors import FusiondocError, UsageError
from fusiondoc.fixes.edits import Edit, SourceText, changed_text, overlapping, unified_diff
from fusiondoc.fixes.fixable import Program
from fusiondoc.fixes.proposals import Bundle, bundles, described
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import MOST_TRIES, Fixes, KeptResults, Outcome, TriedFix, Version
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Try
from fusiondoc.runner.progress import ShowProgress, no_progress
from fusiondoc.workflows.fix_runs import (
    FOLDER,
    Candidate,
    Interrupted,
    Rounding,
    Versions,
    can_time,
    measured,
    results_file,
    speeds_of,
)
from fusiondoc.workflows.load import report_of
from fusiondoc.workflows.run import Finished, FollowUps, Tell, diagnose_target, tell_nobody
from fusiondoc.workflows.tries import ASKED
from fusiondoc.workflows.tries import measured as measured_try

MOST_BESIDE_TRIES = 8
"""Runs of changed programs of ``diagnose --try-fixes``."""


@dataclass(frozen=True)
class ChangedFile:
    """A file of the user's, before and after; ``edits`` lead from one to the other."""

    source: SourceText
    text: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Found:
    """What was found, and the files that it changes."""

    fixes: Fixes
    files: tuple[ChangedFile, ...]


def _diff(file: ChangedFile, cwd: Path) -> str:
    """With names relative to the current folder, where it can be applied (``patch -p1``)."""
    path, here = file.source.path, cwd.resolve()
    name = path.relative_to(here).as_posix() if here in path.parents else path.name
    return unified_diff(file.source.text, file.text, name)


def fix_target(
    request: RunRequest,
    store: Place,
    *,
    inference: bool = False,
    most_tries: int = MOST_TRIES,
    timed: bool = True,
    tell: Tell = tell_nobody,
    progress: ShowProgress = no_progress,
) -> Found:
    """Find what lets more of the target fuse.

    Args:
        inference: also try what changes the program for inference: eval mode.
        timed: leave out what is slower; else speed is not looked at.

    Raises:
        UsageError: it has no model, or is no TorchScript.
        FusiondocError: the unchanged program failed.
    """
    if request.script:
        raise _no_model(request)
    if request.target.kind == "archive":
        raise UsageError(
            f"{request.target.label} is an archive: the code in it is not changed",
            "Give the Python file that it was made from.",
        )
    request = replace(request, seed=request.seed if request.seed is not None else 0)
    with tempfile.TemporaryDirectory(prefix="fusiondoc-fix-") as name:
        folder = Path(name)
        asking = replace(
            request, verify=True, results=KeptResults(str(results_file(folder, False)), compare=False)
        )
        done = diagnose_target(asking, store, follow_ups=FollowUps(rerun=False), tell=tell, progress=progress)
        if done.failed is not None:
            raise done.failed
        if done.interrupted:
            raise KeyboardInterrupt
        _must_be_model(request, done.capture, done.report)
        found = _found(asking, done.capture, done.report, inference)
        versions = Versions(
            asking,
            done.capture,
            {one.source.path: one.source for one in found.program.files},
            folder,
            progress,
        )
        rounding = Rounding(done.capture.records.rounding)
        unchanged = measured(done.report, done.capture, rounding), replace(asking, results=None)
        return _search(found, _Search(versions, unchanged, most_tries, timed, tell), request.cwd)


def _must_be_model(request: RunRequest, capture: Capture, report: Report) -> None:
    if capture.records.target.how == "script":
        raise _no_model(request)
    if report.frontend not in (None, "torchscript"):
        raise UsageError(
            f"fix changes programs for TorchScript; {request.target.label} goes through {report.frontend}",
            "fusiondoc diagnose says what fuses there.",
        )


def _no_model(request: RunRequest) -> UsageError:
    return UsageError(
        f"{request.target.label} is a script: there is no model to run in other ways and compare",
        "Name the model (FILE.py:NAME), or give the file a model and inputs.",
    )


@dataclass(frozen=True)
class _ToTry:
    """Changes to try, and what is only described."""

    program: Program
    bundles: tuple[Bundle, ...]
    described: tuple[str, ...]


def _found(request: RunRequest, capture: Capture, report: Report, inference: bool) -> _ToTry:
    loaded = capture.records.target
    program = Program(
        report,
        request.target,
        request.options(),
        request.cwd,
        training=loaded.training,
        is_module=loaded.training is not None and not loaded.scripted and not loaded.frozen,
    )
    every = bundles(program)
    left_out = [one for one in every if one.eval_mode and not inference]
    said = (
        *described(program),
        *(f"not tried: {one.title} ({', '.join(one.notes)}); --inference tries it" for one in left_out[-1:]),
    )
    return _ToTry(program, tuple(one for one in every if one not in left_out), said)


def _search(found: _ToTry, search: _Search, cwd: Path) -> Found:
    interrupted, speed = False, None
    try:
        search.run(found.bundles)
        speed = search.time()
    except (Interrupted, KeyboardInterrupt):
        interrupted = True
    files = tuple(_files((one.source for one in found.program.files), search.edits))
    fixes = Fixes(
        target=found.program.target.label,
        unchanged=search.asked[0],
        together=search.now[0],
        tried=tuple(search.tried),
        diff="".join(_diff(one, cwd) for one in files),
        described=found.described,
        speed=speed,
        untried=search.untried,
        interrupted=interrupted,
        environment=found.program.report.environment,
        fuser=found.program.report.fuser.effective,
    )
    return Found(fixes, files)


def _files(sources: Iterable[SourceText], edits: Sequence[Edit]) -> Iterable[ChangedFile]:
    for source in sources:
        own = tuple(edit for edit in edits if edit.path == source.path)
        if own:
            yield ChangedFile(source, changed_text(source.text, own), own)


class _Search:
    """Tries one change after the other on top of those that were kept."""

    def __init__(
        self,
        versions: Versions,
        asked: tuple[Version, RunRequest],
        most_tries: int,
        timed: bool,
        tell: Tell,
    ) -> None:
        self._versions = versions
        self._left = most_tries
        self._timed = timed
        self._tell = tell
        self.asked = asked
        self._steps: list[_Step] = [_Step(Candidate(), asked, -1)]
        self.tried: list[TriedFix] = []
        self.untried = 0

    def run(self, found: Sequence[Bundle]) -> None:
        """All of them; those that did not help alone once more, if operators changed after them."""
        waiting: list[tuple[int, int, Bundle]] = []
        rewritten = 0
        for bundle in found:
            for one, index in self._try_whole(bundle):
                outcome = self.tried[index].outcome
                if outcome is Outcome.NO_GAIN:
                    waiting.append((rewritten, index, one))
                elif outcome is Outcome.KEPT and one.kind.in_source:
                    rewritten += 1
        for before, index, bundle in waiting:
            if rewritten > before and self._left > 0:
                self._try(bundle, index)

    @property
    def edits(self) -> tuple[Edit, ...]:
        return self._steps[-1].candidate.edits

    @property
    def now(self) -> tuple[Version, RunRequest]:
        """The program with all that is kept so far."""
        return self._steps[-1].version

    def time(self) -> Ratio | None:
        """Time the program after each change that was kept, all in turns; if the last is slower than the
        unchanged program, twice, only the changes up to the fastest stay. Returns the speed of what stays."""
        if len(self._steps) == 1 or not self._timed:
            return None
        if can_time([step.version[0] for step in self._steps]):
            self._tell("timing what fuses more, in turns and without logs")
        speeds = speeds_of([step.version for step in self._steps])
        if speeds[-1] is not None and speeds[-1].high < 1:
            # Where the host is the limit a round can be slow by chance, and a change lost by it.
            self._tell("timing it once more: what seems slower is left out if it is so twice")
            speeds = speeds_of([step.version for step in self._steps])
        for step, speed in zip(self._steps[1:], speeds[1:]):
            self.tried[step.row] = replace(self.tried[step.row], speed=speed)
        last = speeds[-1]
        if last is None or last.high >= 1:
            return last
        best = max(range(len(speeds)), key=lambda index: _value(speeds[index]))
        for step in self._steps[best + 1 :]:
            self.tried[step.row] = replace(self.tried[step.row], outcome=Outcome.SLOWER)
        del self._steps[best + 1 :]
        return speeds[best]

    def _try_whole(self, bundle: Bundle) -> list[tuple[Bundle, int]]:
        """All of a bundle at once; if that does not work, what is in it one by one. With their rows."""
        index = self._try(bundle)
        if index is None:
            return []
        singly = bundle.singly()
        if self.tried[index].outcome in (Outcome.KEPT, Outcome.NO_GAIN) or not singly:
            return [(bundle, index)]
        del self.tried[index]
        rows = [(one, self._try(one)) for one in singly]
        return [(one, row) for one, row in rows if row is not None]

    def _try(self, bundle: Bundle, row: int | None = None) -> int | None:
        """Its row among what was tried, a new one unless ``row`` is one of before; None if it has nothing to
        do, or may not be tried any more."""
        if overlapping([*self.edits, *bundle.edits]):
            return None  # something that was kept has changed these lines already
        if bundle.about and not bundle.about & self.now[0].unfused:
            return None  # what it is about is fused by now
        if self.now[0].launches <= 1 and not self.now[0].fallbacks:
            return None  # one group has everything
        if self._left <= 0:
            self.untried += 1
            return None
        self._left -= 1
        self._tell(f"trying: {bundle.title}")
        before, wanted = self.now[0], self._steps[-1].candidate.plus(bundle)
        after, request = self._versions.measure(wanted, bundle.kind.name.lower())
        outcome = self._judged(bundle, after)
        done = TriedFix(bundle.kind, bundle.title, bundle.lines, bundle.notes, outcome, before, after)
        if row is None:
            self.tried.append(done)
            row = len(self.tried) - 1
        elif outcome is not Outcome.NO_GAIN:
            self.tried[row] = done
        if outcome is Outcome.KEPT:
            self._steps.append(_Step(wanted, (after, request), row))
        return row

    def _judged(self, bundle: Bundle, after: Version) -> Outcome:
        if after.problem is not None:
            return Outcome.FAILED
        if set(after.wrong) - set(self.asked[0].wrong):
            return Outcome.WRONG
        return Outcome.KEPT if after.better_than(self.now[0], bundle.fewer) else Outcome.NO_GAIN


@dataclass(frozen=True)
class _Step:
    """The program after a change that was kept; ``row`` is the change's place among what was tried."""

    candidate: Candidate
    version: tuple[Version, RunRequest]
    row: int


def _value(speed: Ratio | None) -> float:
    return 1.0 if speed is None else speed.value


def with_fixes(
    request: RunRequest, done: Finished, tell: Tell = tell_nobody, progress: ShowProgress = no_progress
) -> Finished:
    """The finished run with the changes to its program among its tries; its capture keeps them.

    A target that ``fix`` cannot change, such as a script, is told and left as it is.
    """
    if done.failed is not None or done.interrupted:
        return done
    try:
        place = Within(done.capture.path, f"{FOLDER}/unchanged")
        fixes = fix_target(request, place, most_tries=MOST_BESIDE_TRIES, tell=tell, progress=progress).fixes
    except FusiondocError as error:
        tell(f"note: --try-fixes: {error.message}")
        return done
    rows = done.report.tries or (measured_try(ASKED, (), done.report, done.capture, done.failed),)
    done.capture.keep_tries((*rows, *as_tries(fixes)))
    if fixes.diff:
        tell(f"the changes as a diff: fusiondoc fix {request.target.text}")
    report = report_of(done.capture)
    return replace(done, report=report, interrupted=done.interrupted or fixes.interrupted)


def as_tries(fixes: Fixes) -> list[Try]:
    """A row for each change, made on top of those kept before it, which is the order of the rows."""
    return [_row(one) for one in fixes.tried]


def _row(one: TriedFix) -> Try:
    after: Version = one.after
    return Try(
        change=f"fix: {one.change}",
        codes=(),
        groups=after.groups,
        ops_fused=after.ops_fused,
        unfused=after.outside,
        fallbacks=after.fallbacks,
        gb_per_s=None,
        steady_seconds=None,
        exit=0 if after.problem is None else 3,
        problem=after.problem,
        wrong=len(after.wrong),
        speed=one.speed,
    )
