"""From a request to a report: the target runs in a child, its capture is read, and
follow-up runs add to it.

``diagnose``, ``check``, ``kernels`` and the pytest fixture all run their targets
through this.

A run under the profiler shows how the time of a step is spent; ``speed.py`` adds it
to the report.

torch hides why a group fell back, so a rerun switches fallbacks off and the group
raises its error. ``fuser_faults.py`` decides whether the fuser or the program
caused the error of a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.capture import Capture, FoundError, ProfiledRun, Rerun
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.request import IN_PROCESS, RunRequest
from fusiondoc.captures.store import CaptureLocation, Within, while_writing
from fusiondoc.captures.trust import PackageFiles, keep_sources
from fusiondoc.errors import CannotRun, FusiondocError, UsageError
from fusiondoc.fusers import facts_of, is_switched_by_package
from fusiondoc.fusers.fuser_errors import PROGRAM
from fusiondoc.model import dataclass
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source, user_line
from fusiondoc.parsers.lines.error_texts import FuserError, fuser_error, read_error
from fusiondoc.runner import keep_peak
from fusiondoc.runner.fork_servers import forks
from fusiondoc.runner.interpreter import inspect
from fusiondoc.runner.launch import ShowProgress, no_progress, run
from fusiondoc.whole_files import open_regular
from fusiondoc.workflows.fallback_off import fallback_off, is_off
from fusiondoc.workflows.follow_ups import run_timing, run_tries
from fusiondoc.workflows.fuser_faults import find_fault, wants_to_know
from fusiondoc.workflows.load import parse_capture, report_of

_RERUN = "rerun"
"""The folder of the rerun's capture, inside the capture of its run."""

_LOG_BYTES = 64 << 20
"""Bytes of the rerun's log that are searched for an error that the program
caught."""


def wants_rerun(report: Report, capture: Capture) -> bool:
    """Whether groups fell back, the log does not state why, and a rerun may."""
    return (
        any(fallback.error is None for fallback in report.fallbacks)
        and not is_off(os.environ)
        and capture.result.ended not in (Ended.TIMED_OUT, Ended.INTERRUPTED)
    )


def rerun_without_fallback(
    request: RunRequest,
    capture: Capture,
    notify: Callable[[str], None],
    progress: ShowProgress,
) -> None:
    """Run the request once more with the fallback of the fuser switched off; the
    result goes into ``capture``."""
    torch = str(capture.request.torch)
    variables = fallback_off(torch, os.environ)
    again = replace(
        request, variables={**request.variables, **variables}, verify=False
    )
    notify(
        "note: groups fell back; running once more without fallback to see why (--no-rerun)"
    )
    with progress(f"{request.target.label} without fallback") as bar:
        done = run(again, Within(capture.path, _RERUN), bar)
    error = _error(done)
    found = None if error is None else FoundError(str(error), error.kind)
    capture.keep_rerun(
        Rerun(variables, _RERUN, done.result.ended, done.result.signal, found)
    )


def _error(capture: Capture) -> FuserError | None:
    """The error that ended the rerun, or one in its log that the program caught."""
    recorded_error = capture.records.error
    error = None
    if recorded_error is not None and recorded_error.stage not in (
        "interrupted",
        "exit",
    ):
        error = read_error(f"{recorded_error.type}: {recorded_error.message}")
    if error is not None and error.kind != PROGRAM:
        return error
    try:
        with open_regular(capture.log_path) as log:
            text = log.read(_LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return error
    return fuser_error(text) or error


_PROFILE = "profile"
"""The folder of the profiled run's capture, inside the capture of its run."""


def run_profile(
    request: RunRequest,
    capture: Capture,
    notify: Callable[[str], None],
    progress: ShowProgress,
) -> bool:
    """Run the target under the profiler and keep that in ``capture``; False if the
    user interrupted."""
    if capture.records.target.how == IN_PROCESS:
        return True
    variables = {
        **request.variables,
        **facts_of(capture.records.fuser.effective).log.profile_variables,
    }
    again = replace(
        request,
        profile=True,
        timing=False,
        verify=False,
        dumps=(),
        command=(),
        variables=variables,
    )
    notify("profiling without logs: where the time goes")
    with progress(f"{request.target.label} profiled") as bar:
        try:
            done = run(again, Within(capture.path, _PROFILE), bar)
            failed = done.error()
        except FusiondocError as error:
            capture.keep_profile(ProfiledRun(problem=_problem(error)))
            return True
    capture.keep_profile(
        ProfiledRun(_PROFILE, None if failed is None else _problem(failed))
    )
    return done.result.ended is not Ended.INTERRUPTED


def _problem(error: FusiondocError) -> str:
    return f"no profile: the run under it failed: {error.in_one_line}"


Notify = Callable[[str], None]
"""Takes each line that a user should read while runs go on, such as "note: groups
fell back; ..."."""


def silent(line: str) -> None:
    """Discards the note."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run. ``failed`` is the error that ended it, to be raised after the
    report."""

    capture: Capture
    failed: FusiondocError | None

    @property
    def interrupted(self) -> bool:
        return self.capture.result.ended is Ended.INTERRUPTED


@dataclass(frozen=True)
class FollowUps:
    """Which further runs are made after the first one, each in a child of its
    own."""

    rerun: bool = True
    """A run without fallback, if groups fell back and the log does not state why; a
    run without the fuser, if the first run failed."""
    timing: bool = False
    """Runs without logs: eager against fused, and under the profiler."""
    tries: bool = False
    """A run with each change that the findings suggest."""
    profile: bool = False
    """A run under the profiler, without logs; ``timing`` implies it."""

    @property
    def takes_times(self) -> bool:
        return self.timing or self.profile


@dataclass(frozen=True)
class Finished:
    """``failed`` is the program's error that ended the first run; None also after
    an interruption and if the fuser is at fault. ``interrupted`` is True if the
    user interrupted any of the runs. The report covers everything that was captured
    in any case."""

    report: Report
    capture: Capture
    failed: FusiondocError | None
    interrupted: bool


def diagnose_target(
    request: RunRequest,
    store: CaptureLocation,
    *,
    follow_ups: FollowUps = FollowUps(),
    peak: float | None = None,
    source_roots: Sequence[Path] = (),
    notify: Notify = silent,
    progress: ShowProgress = no_progress,
) -> Finished:
    """Run the target and its follow-up runs, and report them.

    Args: store: where the capture goes, such as ``CaptureStore(folder)``. peak:
        memory bandwidth of the device in GB/s, if the user gave one. source_roots:
        folders beside the project whose Python files the capture may keep. notify:
        is called with notes and the name of the next run. progress: shows how far
        each run is.

    Raises:
        UsageError, CannotRun: nothing ran, so there is nothing to report.
    """
    ran = run_target(request, store, notify=notify, progress=progress)
    return report_run(
        request,
        ran,
        follow_ups=follow_ups,
        peak=peak,
        source_roots=source_roots,
        notify=notify,
        progress=progress,
    )


def run_target(
    request: RunRequest,
    location: CaptureLocation,
    *,
    notify: Notify = silent,
    progress: ShowProgress = no_progress,
) -> FinishedRun:
    """Run the target once and pass on the notes of the probe.

    Raises:
        UsageError, CannotRun: nothing ran, so there is nothing to report.
    """
    with progress(request.target.label) as bar:
        capture = run(request, location, bar)
    for note in capture.records.notes:
        notify(f"note: {note.text}")
    left = capture.records.left
    if left is not None:
        notify(f"note: ended {left.in_words}")
        if left.still_running:
            notify(
                f"note: {left.still_running} of them could not be ended; stop them by hand"
            )
    failed = capture.failure()
    if isinstance(failed, (UsageError, CannotRun)):
        raise failed
    return FinishedRun(capture, failed)


def report_run(
    request: RunRequest,
    ran: FinishedRun,
    *,
    follow_ups: FollowUps = FollowUps(),
    peak: float | None = None,
    source_roots: Sequence[Path] = (),
    notify: Notify = silent,
    progress: ShowProgress = no_progress,
) -> Finished:
    """Return the report of a run just made, after its follow-up runs. The capture
    keeps the peak and the program's sources. Its log is parsed once."""
    capture = ran.capture
    with while_writing(capture.path):
        keep_peak(capture, peak)
        parsed = parse_capture(capture)
        _keep_sources(request, capture, parsed.report, source_roots)
        finished = not ran.interrupted
        if follow_ups.rerun:
            if wants_rerun(parsed.report, capture):
                rerun_without_fallback(request, capture, notify, progress)
            if finished and wants_to_know(parsed.report, capture):
                finished = find_fault(request, capture, parsed, notify, progress)
        failed = capture.failure()
        report = report_of(capture, parsed=parsed, source_roots=source_roots)
        if _te_alone(report, capture) and follow_ups != FollowUps(follow_ups.rerun):
            notify(
                "note: --time and --try are for TorchScript; on a GPU the report has times all the same"
            )
            follow_ups = FollowUps()
        if follow_ups.takes_times and finished and capture.error() is None:
            if follow_ups.timing:
                finished = run_timing(request, capture, report, notify, progress)
            if finished:
                finished = run_profile(request, capture, notify, progress)
            report = report_of(capture, parsed=parsed, source_roots=source_roots)
        if follow_ups.tries and finished:
            with forks():
                finished = run_tries(request, capture, report, notify, progress)
            report = report_of(capture, parsed=parsed, source_roots=source_roots)
        return Finished(report, capture, failed, not finished)


def _keep_sources(
    request: RunRequest,
    capture: Capture,
    report: Report,
    source_roots: Sequence[Path],
) -> None:
    """Keep the program's files that the report names in the capture."""
    roots = list(source_roots)
    if request.target.path is not None:
        roots.append(request.target.path.parent)
    packages = PackageFiles(_package_files(report), _packages_of(request.python))
    files = _user_files(report) | _te_files(capture)
    keep_sources(capture.path, files, request.cwd, roots, packages)


def _te_alone(report: Report, capture: Capture) -> bool:
    """True if the run was one of te.ops, or if its program reached no other
    fuser."""
    return is_switched_by_package(
        report.frontend, capture.records.frontend.effective
    )


def _te_files(capture: Capture) -> set[str]:
    """The files with the lines that construct operators of te.ops."""
    operators = []
    for pipeline in capture.records.te.pipelines:
        for operator in pipeline.operators:
            operators.append(operator)
    positions = (Source.parse(operator.source) for operator in operators)
    te_files = set()
    for position in positions:
        if position is not None:
            te_files.add(position.file)
    return te_files


def _user_files(report: Report) -> set[str]:
    """The files of the user's own program that the report names."""
    positions = map(Source.parse, _user_lines(report))
    user_files = set()
    for position in positions:
        if position is not None:
            user_files.add(position.file)
    return user_files


def _package_files(report: Report) -> frozenset[str]:
    """The files in the report with lines of operators outside the user's own
    files."""
    sources = [row.source for row in report.unfused]
    for group in report.groups:
        for node in group.nodes:
            sources.append(node.source)
    package_files = set()
    for source in sources:
        if source and user_line(source) is None:
            position = Source.parse(source)
            if position is not None and position.has_file:
                package_files.add(position.file)
    return frozenset(package_files)


def _packages_of(python: Path) -> Path | None:
    """The interpreter's folder of packages; None if its layout is not pip's."""
    try:
        version_file = inspect(python).version_file
    except FusiondocError:  # it went away meanwhile
        return None
    folder = version_file.parent.parent if version_file is not None else None
    if folder is not None and folder.name in ("site-packages", "dist-packages"):
        return folder
    return None


def _user_lines(report: Report) -> Iterator[str]:
    for row in report.unfused:
        if row.user_source:
            yield row.user_source
    for group in report.groups:
        for node in group.nodes:
            if node.user_source:
                yield node.user_source
