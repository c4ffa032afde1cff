"""``fusiondoc diagnose``: run a model in a process of its own, capture what the fuser says, and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fusiondoc.cli import completion
from fusiondoc.cli.options import make_request, run_options
from fusiondoc.cli.output import check_fail_on, emit, exit_status, report_options
from fusiondoc.errors import INTERRUPTED
from fusiondoc.workflows.peak import peak_option


@click.command(name="diagnose")
@click.argument("target", shell_complete=completion.files)
@click.argument("script_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@run_options
@click.option(
    "--verify",
    is_flag=True,
    help="Compare every pass with an eager one: outputs and, with --backward, gradients.",
)
@click.option(
    "--no-rerun", is_flag=True, help="Do not run again without fallback to see why groups fell back."
)
@click.option(
    "--try", "try_changes", is_flag=True, help="Run again with each change that the findings suggest."
)
@click.option("--try-eval", is_flag=True, help="As --try, and with the model in eval mode.")
@click.option(
    "--time", "timed", is_flag=True, help="Run once more without logs and time it, eager against fused."
)
@peak_option
@report_options
def command(
    target: str,
    script_args: tuple[str, ...],
    format_: str | None,
    output: Path | None,
    fail_on: tuple[str, ...],
    no_rerun: bool,
    try_changes: bool,
    try_eval: bool,
    timed: bool,
    peak: float | None,
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
      fusiondoc diagnose --script train.py -- --epochs 1
      fusiondoc diagnose model.py --backward --verify
      fusiondoc diagnose model.py --backward --time
    """
    check_fail_on(fail_on)
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.cli.config import heard
    from fusiondoc.workflows.load import report_of
    from fusiondoc.workflows.run import first_report, run_target
    from fusiondoc.workflows.timing import run_timing
    from fusiondoc.workflows.tries import run_tries

    request = make_request(target, script_args, options)
    capture, failed = run_target(request, CaptureStore())
    report = first_report(request, capture, peak, not no_rerun)
    finished = True
    if timed and failed is None and not capture.result.get("interrupted"):
        finished = run_timing(request, capture, report)
        report = report_of(capture)
    if finished and (try_changes or try_eval) and not capture.result.get("interrupted"):
        finished = run_tries(request, capture, report, try_eval)
        report = report_of(capture)
    report = heard(report)
    emit(report, format_, output)
    if capture.result.get("interrupted") or not finished:
        click.echo(f"interrupted; what was captured is in {capture.path}", err=True)
        return INTERRUPTED
    if failed is not None:
        raise failed
    return exit_status(report, fail_on)
