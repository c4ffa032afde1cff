"""Versions of one program, run for ``fix``: which operators fuse in each, and
whether its results are the same."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.changes.edits import TextEdit, changed_text
from fusiondoc.changes.inserted_lines import without_unused
from fusiondoc.changes.line_edits import line_edits
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.diagnosis.changes_to_try.user_program import COUNTER
from fusiondoc.errors import FusiondocError
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import Edit, KeptResults, Version
from fusiondoc.model.compiled import CompiledReport
from fusiondoc.model.reasons import CompiledCall
from fusiondoc.model.report import Group, Report, Unfused
from fusiondoc.model.runs import Verification
from fusiondoc.operators import CONTROL_FLOW
from fusiondoc.runner.launch import Progress, ShowProgress, run
from fusiondoc.workflows.fix_bundles import ChangeBundle
from fusiondoc.workflows.load import report_of
from fusiondoc.workflows.runs_ahead import RunsAhead, threads_of_a_run
from fusiondoc.workflows.speed import interpreted

FOLDER = "fix"
"""The captures of changed programs, inside the capture of the unchanged one."""


class Interrupted(Exception):
    """The user stopped a run."""


class Versions:
    """Runs versions of one program.

    Args:
        request: that of the run of the unchanged program; ``capture`` belongs to
            it.
        files: the files that edits change.
        names: the names of these files in reports, where they differ from their
            paths.
        folder: for changed files and for the results of the unchanged program.
        beside: number of concurrent runs.
    """

    def __init__(
        self,
        request: RunRequest,
        capture: Capture,
        files: Mapping[Path, ParsedFile],
        names: Mapping[Path, str],
        folder: Path,
        progress: ShowProgress,
        beside: int,
    ) -> None:
        self._request = request
        self._capture = capture
        self._files = files
        self._names = names
        self._folder = folder
        self._progress = progress
        self._number = 0
        self._eval: Version | None = None
        self._rounding = Rounding(capture.records.rounding)
        self._ahead: RunsAhead[_Wanted, Version] = RunsAhead(beside)
        self._prepared: dict[_Wanted, _VersionRun] = {}
        self._measured: set[_Wanted] = set()
        self.make_room: Callable[[], None] = self.end_ahead
        """Ends everything that uses memory beside a run."""

    def begin(self, expected: Iterable[tuple[ChangeBundle, str]]) -> None:
        """Start the runs of versions that will probably be measured next, if runs
        are made ahead."""
        if not self._ahead.makes_any:
            return
        runs = []
        for bundle, name in expected:
            if not _in_eval_mode(bundle):  # that needs a run of its own before it
                runs.append((_wanted(bundle), self._prepared_run(bundle, name)))
        self._ahead.begin(runs)

    @property
    def side_by_side(self) -> bool:
        """Whether this machine makes runs concurrently."""
        return self._ahead.makes_any

    @property
    def room(self) -> int:
        """How many more processes this machine has cores for."""
        return self._ahead.room

    def request_of(self, bundle: ChangeBundle, name: str) -> RunRequest | None:
        """The request that ``measure`` will run; None for one that needs a run of
        its own before it."""
        if _in_eval_mode(bundle):
            return None
        return self._prepared_run(bundle, name).request

    def end_ahead(self) -> None:
        """End the runs whose results nobody waits for."""
        self._ahead.end_all()

    def measure(
        self, bundle: ChangeBundle, name: str
    ) -> tuple[Version, RunRequest]:
        """Run a version of the program.

        Raises:
            Interrupted: the user stopped it.
        """
        if _in_eval_mode(bundle) and self._eval is None:
            kept = KeptResults(str(results_file(self._folder, True)), compare=False)
            request = replace(
                self._request, eval=True, results=kept, verify=True, command=()
            )
            self._eval = self._made(self._to_run(request, "unchanged_in_eval_mode"))
            if self._eval.problem is not None or self._eval.wrong:
                return self._eval, request
        wanted = _wanted(bundle)
        prepared = self._prepared_run(bundle, name)
        version = self._ahead.take(wanted)
        if version is not None and version.problem is not None:
            self.make_room()  # it may have lacked the memory or the time that others had
            version = None
        if version is None:
            version = self._made(prepared)
        self._measured.add(wanted)
        return version, prepared.request

    def _prepared_run(self, bundle: ChangeBundle, name: str) -> _VersionRun:
        """The run of a version, with its changed files written."""
        wanted = _wanted(bundle)
        if wanted not in self._prepared:
            self._number += 1
            self._prepared[wanted] = self._to_run(self._request_of(bundle), name)
        return self._prepared[wanted]

    def _to_run(self, request: RunRequest, name: str) -> _VersionRun:
        slug = re.sub(r"[^A-Za-z0-9_.=]+", "_", name).strip("_.")[:60]
        folder = f"{FOLDER}/{self._number}-{slug}"
        return _VersionRun(request, self._capture.path, folder, self._rounding)

    def lines_changed(self, bundle: ChangeBundle) -> tuple[Edit, ...]:
        """The whole lines of the unchanged files that a bundle changes, with the
        names used in reports."""
        lines: list[Edit] = []
        for file, own in self._by_file(bundle.edits):
            path = file.source.path
            lines += line_edits(file, self._names.get(path, str(path)), own)
        return tuple(lines)

    def _by_file(
        self, edits: Sequence[TextEdit]
    ) -> Iterator[tuple[ParsedFile, Sequence[TextEdit]]]:
        """Each file with its edits, without imports that nothing needs."""
        for path in sorted({edit.path for edit in edits}):
            file = self._files[path]
            yield (
                file,
                without_unused(file, [edit for edit in edits if edit.path == path]),
            )

    def _request_of(self, bundle: ChangeBundle) -> RunRequest:
        overlay: dict[str, str] = {}
        for file, own in self._by_file(_edits_for_the_run(bundle)):
            copy = self._folder / f"{self._number}-{len(overlay)}.py"
            copy.write_bytes(
                file.source.bytes_of(changed_text(file.source.text, own))
            )
            overlay[str(file.source.path)] = str(copy)
        results = KeptResults(
            str(results_file(self._folder, _in_eval_mode(bundle))), compare=True
        )
        return replace(
            self._request.with_setting(bundle.setting),
            overlay=overlay,
            results=results,
            threads=threads_of_a_run() if self._ahead.makes_any else None,
            verify=True,
            command=(),
        )

    def _made(self, prepared: _VersionRun) -> Version:
        label = (
            f"{prepared.request.target.label} {prepared.folder.partition('-')[2]}"
        )
        with self._progress(label) as bar:
            return prepared(bar)

    def close(self) -> None:
        """End the runs whose results nobody waits for, and remove their
        captures."""
        self._ahead.close()
        for wanted, prepared in self._prepared.items():
            if wanted not in self._measured:
                shutil.rmtree(
                    prepared.capture / prepared.folder, ignore_errors=True
                )


@dataclass(frozen=True)
class _VersionRun:
    """A callable that runs a version; its capture is ``folder`` inside
    ``capture``."""

    request: RunRequest
    capture: Path
    folder: str
    rounding: Rounding

    def __call__(self, bar: Progress | None = None) -> Version:
        """
        Raises:
            Interrupted: the user stopped it.
        """
        try:
            done = run(self.request, Within(self.capture, self.folder), bar)
        except FusiondocError as error:
            return Version(0, 0, 0, 0, problem=error.in_one_line)
        if done.result.ended is Ended.INTERRUPTED:
            raise Interrupted
        return measured(report_of(done), done, self.rounding)


@dataclass(frozen=True)
class _Wanted:
    """The contents of a version."""

    edits: frozenset[TextEdit]
    fuser: str | None
    runs: int | None
    knobs: frozenset[tuple[str, str]]
    flags: frozenset[str]


def _wanted(bundle: ChangeBundle) -> _Wanted:
    setting = bundle.setting
    return _Wanted(
        frozenset(bundle.edits),
        setting.fuser,
        setting.runs,
        frozenset(setting.knobs.items()),
        frozenset(setting.flags),
    )


def _in_eval_mode(bundle: ChangeBundle) -> bool:
    """True if it is compared with the unchanged program in eval mode."""
    return "--eval" in bundle.setting.flags


def _edits_for_the_run(bundle: ChangeBundle) -> list[TextEdit]:
    """The edits, without those of a module that was moved to its device, as the run
    itself freezes it."""
    frozen: set[TextEdit] = set()
    for one in bundle.changes:
        if "--freeze" in one.setting.flags:
            frozen.update(one.edits)
    return [edit for edit in bundle.edits if edit not in frozen]


def results_file(folder: Path, eval_mode: bool) -> Path:
    """The file with the results of the unchanged program."""
    return folder / ("results-eval.pt" if eval_mode else "results.pt")


class Rounding:
    """How far roundings alone move the results of the unchanged program.

    A fused kernel rounds other intermediate results, and a net that is trained with
    batch norm over few values amplifies that: results may differ by ``TIMES`` the
    effect of rounding every input once. If a rounding changes the sign of a ReLU's
    input, the gradients of the layers before it change by far more; which ReLU this
    hits is chance, so each gradient may also be off by as much as the gradient that
    changed most.
    """

    TIMES = 10

    def __init__(self, rows: Sequence[Verification]) -> None:
        self._moved = {}
        for row in rows:
            if row.max_rel is not None:
                self._moved[row.what] = row.max_rel
        self._most = {}
        for phase in ("forward", "backward"):
            self._most[phase] = max(
                (row.max_rel or 0.0 for row in rows if row.phase == phase),
                default=0.0,
            )

    def explains(self, row: Verification) -> bool:
        """True if a difference is no larger than the effect of rounding."""
        return (
            row.max_rel is not None
            and row.detail is None
            and row.max_rel <= self.allowed(row)
        )

    def allowed(self, row: Verification) -> float:
        farthest = self._most.get(row.phase, 0.0)
        return max(self.TIMES * self._moved.get(row.what, farthest), farthest)


def measured(report: Report, capture: Capture, rounding: Rounding) -> Version:
    """The figures of a run."""
    first = report.first_groups
    outside = []
    for row in report.rows_that_may_have_run:
        if row.reason.code != COUNTER:
            outside.append(row)
    failed = capture.error()
    evaluated = interpreted(report)
    compiled = report.compiled
    if failed is not None or evaluated:
        timeable = None
    else:
        timeable = report.fuser.effective
    version = Version(
        groups=sum(group.count for group in first),
        ops_fused=report.fused_operators,
        launches=_launches(first, outside, of_gradients=compiled is not None),
        fallbacks=report.times_fallen_back,
        problem=None if failed is None else failed.in_one_line,
        timeable=timeable,
        outside=sum(row.count for row in outside),
        unfused=frozenset(row.op for row in outside),
        interpreted=evaluated,
    )
    if compiled is not None:
        version = _compiled(version, compiled)
    return _with_results(version, report, capture.records.same_results, rounding)


def _compiled(version: Version, compiled: CompiledReport) -> Version:
    return replace(
        version,
        graph_breaks=sum(row.count for row in compiled.breaks),
        recompiles=sum(row.count for row in compiled.recompiles),
        bytes_moved=compiled.bytes_moved,
        of_gradients=any(graph.phase == "backward" for graph in compiled.graphs),
    )


def _with_results(
    version: Version,
    report: Report,
    same_results: Sequence[Verification],
    rounding: Rounding,
) -> Version:
    """Return the version with its differences in results, from eager and from the
    unchanged program."""
    wrong: list[str] = []
    allowed: list[float] = []
    for row in (*same_results, *report.verification):
        if row.same:
            continue
        if rounding.explains(row):
            allowed.append(rounding.allowed(row))
        else:
            wrong.append(_difference(row))
    random: list[str] = []
    for row in report.verification:
        random.extend(row.random)
    return replace(
        version,
        wrong=tuple(dict.fromkeys(wrong)),
        allowed=max(allowed, default=None),
        drew_otherwise=next(
            (row.by for row in same_results if row.by != "value"), None
        ),
        random=tuple(dict.fromkeys(random)),
        by_statistics=any(row.by == "statistics" for row in report.verification),
    )


def _launches(
    groups: Sequence[Group], outside: Sequence[Unfused], of_gradients: bool
) -> int:
    """Kernel launches of a pass, of its groups and of the operators outside: of the
    forward pass alone, or of both."""
    of_groups = 0
    for group in groups:
        if of_gradients or group.phase != "backward":
            of_groups += group.count
    rows = [row for row in outside if of_gradients or row.phase != "backward"]
    return of_groups + sum(
        row.count
        for row in rows
        if row.op not in CONTROL_FLOW and not _is_view(row)
    )


def _is_view(row: Unfused) -> bool:
    return isinstance(row.reason.detail, CompiledCall) and row.reason.detail.is_view


def _difference(row: Verification) -> str:
    """ "output 0: 3 of 8 elements differ" """
    if row.detail:
        return f"{row.what}: {row.detail}"
    off = ""
    if row.max_rel and row.tolerance:
        off = f" by {row.max_rel:.2g} (allowed: {row.tolerance:.2g})"
    return f"{row.what} differs{off}"
