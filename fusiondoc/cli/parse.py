"""``fusiondoc parse``: the report from logs and captures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from fusiondoc.cli.options import (
    SECONDS,
    captures_option,
    model_name_option,
    peak_option,
    source_root_option,
)
from fusiondoc.cli.output import (
    check_fail_on,
    complete_files,
    emit,
    exit_status,
    report_options,
)
from fusiondoc.errors import UsageError

if TYPE_CHECKING:
    from fusiondoc.model.report import Report


@click.command(name="parse")
@click.argument("logs", nargs=-1, metavar="[LOG]...", shell_complete=complete_files)
@click.option(
    "--follow",
    "-F",
    is_flag=True,
    help="Read LOG while it grows and show what appears; Ctrl-C stops reading and prints the report.",
)
@click.option(
    "--idle",
    type=SECONDS,
    metavar="SECONDS",
    help="With --follow: end when LOG has not grown for this long.",
)
@model_name_option
@captures_option
@peak_option
@source_root_option
@report_options
def command(
    logs: tuple[str, ...],
    follow: bool,
    idle: float | None,
    model_name: str | None,
    peak: float | None,
    source_root: tuple[Path, ...],
    format_: str | None,
    output: Path | None,
    fail_on: tuple[str, ...],
) -> int:
    """Report from saved logs; needs neither torch nor a GPU.

    LOG is a file (also .gz, .xz, .bz2, .zst), a folder of logs, a capture (its folder or name), a bundle, a
    saved JSON report or - for stdin; without one, the newest capture. Several logs are parts of one run and
    give one report.

    \b
    Examples:
      fusiondoc parse train.log
      fusiondoc parse stderr.log stdout.log.gz --format json --output report.json
      python train.py 2>&1 | fusiondoc parse -
      fusiondoc parse train.log --peak 1555
      fusiondoc parse --follow train.log
    """
    check_fail_on(fail_on)
    source_of = click.get_current_context().get_parameter_source
    from fusiondoc.cli.config import without_suppressed
    from fusiondoc.workflows.load import report_from

    if follow:
        report = without_suppressed(_followed(logs, idle, peak, source_root))
    elif idle is not None and source_of("idle") is not ParameterSource.DEFAULT_MAP:
        raise UsageError("--idle is for a log that is followed", "Add --follow.")
    else:
        report = without_suppressed(report_from(logs, peak, source_root))
    emit(_named(report, model_name), format_, output)
    return exit_status(report, fail_on)


def _named(report: Report, model_name: str | None) -> Report:
    """Return the report with this label. One from the configuration file is used
    only if the report has no label."""
    given = (
        click.get_current_context().get_parameter_source("model_name")
        is ParameterSource.COMMANDLINE
    )
    if model_name is None or (report.target.model is not None and not given):
        return report
    return replace(report, target=replace(report.target, model=model_name))


def _followed(
    logs: tuple[str, ...],
    idle: float | None,
    peak: float | None,
    source_root: tuple[Path, ...],
) -> Report:
    from fusiondoc.cli.output import notify
    from fusiondoc.workflows.follow import follow, live_view

    if len(logs) != 1:
        raise UsageError(
            "--follow takes one LOG", "Name the log that grows, or - for stdin."
        )
    path = None if logs[0] == "-" else Path(logs[0])
    with live_view(logs[0] if path is not None else "stdin", notify) as view:
        return follow(path, view, idle=idle, peak=peak, source_roots=source_root)
