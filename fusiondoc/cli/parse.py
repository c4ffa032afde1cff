"""``fusiondoc parse``: the report from logs and captures."""

from __future__ import annotations

from pathlib import Path

import click

from fusiondoc.cli import completion
from fusiondoc.cli.options import captures_option, peak_option, source_root_option
from fusiondoc.cli.output import check_fail_on, emit, exit_status, report_options


@click.command(name="parse")
@click.argument("logs", nargs=-1, metavar="[LOG]...", shell_complete=completion.files)
@captures_option
@peak_option
@source_root_option
@report_options
def command(
    logs: tuple[str, ...],
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
    """
    check_fail_on(fail_on)
    from fusiondoc.cli.config import heard
    from fusiondoc.workflows.load import report_from

    report = heard(report_from(logs, peak, source_root))
    emit(report, format_, output)
    return exit_status(report, fail_on)
