"""Running a target: what diagnose, check and kernels have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from fusiondoc.errors import CannotRun, FusiondocError, UsageError

if TYPE_CHECKING:
    from fusiondoc.captures.capture import Capture
    from fusiondoc.captures.request import RunRequest
    from fusiondoc.captures.store import Place
    from fusiondoc.model.report import Report


class Ran(NamedTuple):
    """``failed`` is the error that the run ended with, to be raised after the report."""

    capture: Capture
    failed: FusiondocError | None


def run_target(request: RunRequest, place: Place) -> Ran:
    """Run it, with a progress bar on a terminal, and say the notes of the probe.

    Raises:
        UsageError, CannotRun: nothing ran, so there is nothing to report.
    """
    from fusiondoc.captures.ending import failure
    from fusiondoc.runner.launch import run
    from fusiondoc.runner.progress import terminal_progress

    with terminal_progress(request.target.label) as progress:
        capture = run(request, place, progress)
    for record in capture.records():
        if record["record"] == "note":
            click.echo(f"note: {record.get('text')}", err=True)
    failed = failure(capture)
    if isinstance(failed, (UsageError, CannotRun)):
        raise failed
    return Ran(capture, failed)


def first_report(request: RunRequest, capture: Capture, peak: float | None, rerun: bool) -> Report:
    """The report of a run just made; the capture keeps the peak and the program's sources. With ``rerun``
    groups that fell back are run again without fallback."""
    from fusiondoc.captures.sources import keep_sources
    from fusiondoc.workflows.load import report_of
    from fusiondoc.workflows.peak import keep_peak
    from fusiondoc.workflows.rerun import rerun_without_fallback, wants_rerun
    from fusiondoc.workflows.texts import user_files

    keep_peak(capture, peak)
    report = report_of(capture)
    keep_sources(capture.path, user_files(report), request.cwd)
    if rerun and wants_rerun(report, capture):
        rerun_without_fallback(request, capture)
        report = report_of(capture)
    return report
