"""``fusiondoc diagnose``: run a model in a process of its own, capture the fuser's
messages, and report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc.cli.help import CommandWithShortHelp
from fusiondoc.cli.options import (
    launcher_arguments,
    launcher_options,
    make_request,
    model_name_option,
    peak_option,
    run_option,
    run_options,
    source_root_option,
    store_for,
)
from fusiondoc.cli.output import (
    check_fail_on,
    complete_files,
    emit,
    exit_status,
    notify,
    output_checked,
    report_options,
    write_file,
)
from fusiondoc.errors import INTERRUPTED, UsageError

if TYPE_CHECKING:
    from fusiondoc.model.report import Report
    from fusiondoc.runner.launch import ShowProgress
    from fusiondoc.workflows.run import Finished


@click.command(name="diagnose", cls=CommandWithShortHelp)
@click.argument("target", shell_complete=complete_files)
@click.argument(
    "script_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"
)
@model_name_option
@run_options
@run_option("verify")
@click.option(
    "--no-rerun",
    is_flag=True,
    help="Do not run again to see why groups fell back, or whose error it is.",
)
@click.option(
    "--try",
    "try_changes",
    is_flag=True,
    help="Run again with each change that the findings suggest.",
)
@click.option(
    "--time",
    "timed",
    is_flag=True,
    help="Run again without logs: eager against fused, and where the time of a step goes.",
)
@click.option(
    "--trace-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    callback=output_checked,
    help="Write the profiled steps for Perfetto or chrome://tracing, groups named; implies --time.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Show groups and fallbacks as they appear in the log of the first run.",
)
@launcher_options
@peak_option
@source_root_option
@report_options
def command(
    target: str,
    script_args: tuple[str, ...],
    format_: str | None,
    output: Path | None,
    fail_on: tuple[str, ...],
    no_rerun: bool,
    try_changes: bool,
    timed: bool,
    live: bool,
    trace_file: Path | None,
    peak: float | None,
    source_root: tuple[Path, ...],
    **options: Any,
) -> int:
    """Run TARGET under a fuser and report what fused, what did not and why.

    TARGET is FILE.py, FILE.py:NAME, package.module:NAME or a TorchScript archive FILE.pt. A file names its
    model `model` and its arguments `inputs` (a tuple, a function that returns one, or a list of tuples for
    several shapes); a file without them is run as it is.

    \b
    Examples:
      fusiondoc diagnose examples/bias_gelu.py
      fusiondoc diagnose model.py:block --input 'float32[8,1024]:grad' --backward
      fusiondoc diagnose model.py --backward --time
      fusiondoc diagnose model.py -o report.html
      fusiondoc diagnose --script train.py -- --epochs 1
    """
    check_fail_on(fail_on)
    # Here: --help and shell completion need none of it.
    from fusiondoc.cli.config import without_suppressed
    from fusiondoc.workflows.run import FollowUps, diagnose_target

    launcher = launcher_arguments()
    if launcher and any((timed, trace_file, try_changes)):
        raise UsageError(
            "--time, --trace-file and --try are for a run of one process",
            "Leave them out, or leave out --nproc-per-node.",
        )
    if options["no_run"] and (timed or trace_file):
        raise UsageError(
            "--no-run computes no results: there is nothing to time",
            "Leave it out, or leave out --time.",
        )
    request = make_request(target, script_args, {**options, "launcher": launcher})
    follow_ups = FollowUps(
        rerun=not (no_rerun or launcher),
        timing=timed or trace_file is not None,
        tries=try_changes,
    )
    done = diagnose_target(
        request,
        store_for(options),
        follow_ups=follow_ups,
        peak=peak,
        source_roots=source_root,
        notify=notify,
        progress=_progress(live),
    )
    report = without_suppressed(done.report)
    if _has_more_than_an_error(done, report) or _is_document(format_, output):
        emit(report, format_, output)
    if done.interrupted:
        notify(f"interrupted; what was captured is in {done.capture.path}")
        return INTERRUPTED
    if done.failed is not None:
        raise done.failed
    if trace_file is not None:
        _write_trace(trace_file, done)
    return exit_status(report, fail_on)


def _progress(live: bool) -> ShowProgress:
    from fusiondoc.runner.launch import terminal_progress

    if not live:
        return terminal_progress
    from fusiondoc.workflows.follow import live_progress, live_view

    return live_progress(lambda label: live_view(label, notify), terminal_progress)


def _has_more_than_an_error(done: Finished, report: Report) -> bool:
    """False for a run that failed before any plan was made: its error is the whole
    result."""
    return done.failed is None or bool(report.groups or report.unfused)


def _is_document(format_: str | None, output: Path | None) -> bool:
    """True if a report will be read by others than the user of this terminal."""
    return (
        format_ not in (None, "text")
        or output is not None
        or "GITHUB_ACTIONS" in os.environ
    )


def _write_trace(file: Path, done: Finished) -> None:
    from fusiondoc.workflows.speed import named_trace_of

    packed = file.suffix == ".gz"
    write_file(
        file, named_trace_of(done.capture, done.report, packed), "--trace-file"
    )
