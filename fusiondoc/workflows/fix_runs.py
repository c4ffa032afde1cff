"""Runs of a changed program: what fuses in it, whether it computes the same, and how fast it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Mapping, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.errors import FusiondocError
from fusiondoc.fixes.edits import Edit, changed_text
from fusiondoc.fixes.fixable import COUNTER
from fusiondoc.fixes.proposals import Bundle
from fusiondoc.fixes.syntax import ParsedFile, without_unused
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import KeptResults, Version
from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Verification
from fusiondoc.runner.launch import run
from fusiondoc.runner.progress import ShowProgress
from fusiondoc.workflows.load import report_of
from fusiondoc.workflows.speed import interpreted
from fusiondoc.workflows.tries import speeds_in_turns

FOLDER = "fix"
"""The captures of changed programs, inside the capture of the unchanged one."""


@dataclass(frozen=True)
class Candidate:
    """A version of the program to run."""

    edits: tuple[Edit, ...] = ()
    knobs: Mapping[str, str] = field(default_factory=dict)
    eval_mode: bool = False
    """It is held against the unchanged program in eval mode."""
    done_by_run: tuple[Edit, ...] = ()
    """Edits that the run makes true by its options: the module is frozen where it has been moved."""
    fuser: str | None = None
    """Another one than that of the unchanged program."""

    def plus(self, bundle: Bundle) -> Candidate:
        """With these changes on top."""
        return Candidate(
            (*self.edits, *bundle.edits),
            {**self.knobs, **bundle.knobs},
            self.eval_mode or bundle.eval_mode,
            (*self.done_by_run, *(bundle.edits if bundle.freeze else ())),
            bundle.fuser or self.fuser,
        )


class Interrupted(Exception):
    """The user stopped a run."""


class Versions:
    """Runs versions of one program.

    Args:
        request: of the unchanged program, which ran; ``capture`` is that run's.
        files: those that edits are of.
        folder: for changed files and for what the unchanged program computes.
    """

    def __init__(
        self,
        request: RunRequest,
        capture: Capture,
        files: Mapping[Path, ParsedFile],
        folder: Path,
        progress: ShowProgress,
    ) -> None:
        self._request = request
        self._capture = capture
        self._files = files
        self._folder = folder
        self._progress = progress
        self._number = 0
        self._eval: Version | None = None
        self._rounding = Rounding(capture.records.rounding)

    def measure(self, candidate: Candidate, name: str) -> tuple[Version, RunRequest]:
        """Run a version of the program.

        Raises:
            Interrupted: the user stopped it.
        """
        if candidate.eval_mode and self._eval is None:
            kept = KeptResults(str(results_file(self._folder, True)), compare=False)
            request = replace(self._request, eval=True, results=kept, verify=True, command=())
            self._eval = self._measured(request, "unchanged_in_eval_mode")
            if self._eval.problem is not None or self._eval.wrong:
                return self._eval, request
        self._number += 1
        request = self._request_of(candidate)
        return self._measured(request, name), request

    def _request_of(self, candidate: Candidate) -> RunRequest:
        overlay: dict[str, str] = {}
        edits = [edit for edit in candidate.edits if edit not in candidate.done_by_run]
        for path in sorted({edit.path for edit in edits}):
            file = self._files[path]
            own = without_unused(file, [edit for edit in edits if edit.path == path])
            copy = self._folder / f"{self._number}-{len(overlay)}.py"
            copy.write_bytes(file.source.bytes_of(changed_text(file.source.text, own)))
            overlay[str(path)] = str(copy)
        results = KeptResults(str(results_file(self._folder, candidate.eval_mode)), compare=True)
        knobs = {**self._request.knobs, **candidate.knobs}
        return replace(
            self._request,
            overlay=overlay,
            knobs=knobs,
            fuser=candidate.fuser or self._request.fuser,
            freeze=self._request.freeze or bool(candidate.done_by_run),
            eval=self._request.eval or (candidate.eval_mode and bool(candidate.done_by_run)),
            results=results,
            verify=True,
            command=(),
        )

    def _measured(self, request: RunRequest, name: str) -> Version:
        slug = re.sub(r"[^A-Za-z0-9_.=]+", "_", name).strip("_.")[:60]
        place = Within(self._capture.path, f"{FOLDER}/{self._number}-{slug}")
        try:
            with self._progress(f"{request.target.label} {name}") as bar:
                done = run(request, place, bar)
        except FusiondocError as error:
            return Version(0, 0, 0, 0, problem=error.in_one_line)
        if done.result.ended is Ended.INTERRUPTED:
            raise Interrupted
        return measured(report_of(done), done, self._rounding)


def results_file(folder: Path, eval_mode: bool) -> Path:
    """Where the results of the unchanged program are."""
    return folder / ("results-eval.pt" if eval_mode else "results.pt")


class Rounding:
    """How far roundings alone move the results of the unchanged program.

    A fused kernel rounds at other places, and a net that is trained with batch norm over few values makes
    much of that: results may be as far apart as ``TIMES`` what one rounding of every input does. Where a
    rounding turns a ReLU over, the gradients of the layers before it move by far more; which ReLU it is, is
    chance, so each gradient may also be as far off as the one that moved farthest.
    """

    TIMES = 10

    def __init__(self, rows: Sequence[Verification]) -> None:
        self._moved = {row.what: row.max_rel for row in rows if row.max_rel is not None}
        self._most = {
            phase: max((row.max_rel or 0.0 for row in rows if row.phase == phase), default=0.0)
            for phase in ("forward", "backward")
        }

    def explains(self, row: Verification) -> bool:
        """Whether a difference is no larger than roundings make it."""
        return row.max_rel is not None and row.detail is None and row.max_rel <= self.allowed(row)

    def allowed(self, row: Verification) -> float:
        farthest = self._most.get(row.phase, 0.0)
        return max(self.TIMES * self._moved.get(row.what, farthest), farthest)


def measured(report: Report, capture: Capture, rounding: Rounding) -> Version:
    """The numbers of a run."""
    first = [group for group in report.groups if group.specialisation == 1]
    alone = [row for row in report.unfused if row.ran is not False and row.reason.code != COUNTER]
    failed = capture.failure()
    compared = (*capture.records.same_results, *report.verification)
    off = [one for one in compared if not one.same]
    evaluated = interpreted(report)
    return Version(
        groups=sum(group.count for group in first),
        ops_fused=report.fused_operators,
        launches=sum(group.count for group in first if group.phase != "backward")
        + sum(row.count for row in alone if row.phase != "backward"),
        fallbacks=sum(one.count for one in report.fallbacks),
        wrong=tuple(dict.fromkeys(_told(one) for one in off if not rounding.explains(one))),
        allowed=max((rounding.allowed(one) for one in off if rounding.explains(one)), default=None),
        random=tuple(dict.fromkeys(op for one in report.verification for op in one.random)),
        by_statistics=any(one.by == "statistics" for one in report.verification),
        problem=None if failed is None else failed.in_one_line,
        timeable=None if failed is not None or evaluated else report.fuser.effective,
        outside=sum(row.count for row in alone),
        unfused=frozenset(row.op for row in alone),
        interpreted=evaluated,
    )


def _told(row: Verification) -> str:
    """ "output 0: 3 of 8 elements differ" """
    if row.detail:
        return f"{row.what}: {row.detail}"
    off = f" by {row.max_rel:.2g} (allowed: {row.tolerance:.2g})" if row.max_rel and row.tolerance else ""
    return f"{row.what} differs{off}"


def can_time(versions: Sequence[Version]) -> bool:
    """Whether the first version and another one can be timed."""
    return versions[0].timeable is not None and any(one.timeable is not None for one in versions[1:])


def speeds_of(versions: Sequence[tuple[Version, RunRequest]]) -> list[Ratio | None]:
    """The speed of each version against the first, timed in turns; None where it cannot be timed."""
    if not can_time([version for version, _ in versions]):
        return [None] * len(versions)
    return speeds_in_turns([(request, version.timeable) for version, request in versions])
