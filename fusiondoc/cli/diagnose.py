"""``fusiondoc diagnose`` and ``fix``: run a model in a process of its own, capture what the fuser says, and
report; and changes to a program that let more of it fuse, each tried, as a diff or applied.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc.cli.options import (
    launcher_arguments,
    launcher_options,
    make_request,
    peak_option,
    run_options,
    source_root_option,
    store_for,
)
from fusiondoc.cli.output import (
    check_fail_on,
    complete_files,
    emit,
    exit_status,
    format_option,
    output_checked,
    output_option,
    report_options,
    tell,
    write,
    write_file,
)
from fusiondoc.errors import INTERRUPTED, UsageError
from fusiondoc.model.change_plan import MOST_TRIES

if TYPE_CHECKING:
    from fusiondoc.model.change_plan import Fixes


@click.command(name="diagnose")
@click.argument("target", shell_complete=complete_files)
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
    "--try-fixes", is_flag=True, help="As --try, and with the changes to the program that fix tries (libcst)."
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
    "--live", is_flag=True, help="Show groups and fallbacks as they appear in the log of the first run."
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
    try_eval: bool,
    try_fixes: bool,
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
      fusiondoc diagnose --script train.py --time -- --epochs 1
      fusiondoc diagnose -m package.train -- --epochs 1
      fusiondoc diagnose --nproc-per-node 2 --script train.py -- --epochs 1
      fusiondoc diagnose model.py --backward --verify
      fusiondoc diagnose model.py --backward --time
      fusiondoc diagnose model.py --trace-file steps.json.gz
      fusiondoc diagnose model.py --live
    """
    check_fail_on(fail_on)
    # Here: --help and shell completion need none of it.
    from fusiondoc.cli.config import heard
    from fusiondoc.runner.launch import ShowProgress, terminal_progress
    from fusiondoc.workflows.run import FollowUps, diagnose_target

    if try_fixes:
        from fusiondoc.fixes.syntax import require_libcst

        require_libcst()
    launcher = launcher_arguments()
    if launcher and (timed or trace_file or try_changes or try_eval or try_fixes):
        raise UsageError(
            "--time, --trace-file and --try are for a run of one process",
            "Leave them out, or leave out --nproc-per-node.",
        )
    request = make_request(target, script_args, {**options, "launcher": launcher})
    progress: ShowProgress = terminal_progress
    if live:
        from fusiondoc.workflows.follow import live_progress, live_view

        progress = live_progress(lambda label: live_view(label, tell), terminal_progress)
    done = diagnose_target(
        request,
        store_for(options),
        follow_ups=FollowUps(
            not (no_rerun or launcher), timed or trace_file is not None, try_changes or try_fixes, try_eval
        ),
        peak=peak,
        source_roots=source_root,
        tell=tell,
        progress=progress,
    )
    if try_fixes:
        from fusiondoc.workflows.fix import with_fixes

        done = with_fixes(request, done, tell, terminal_progress)
    report = heard(done.report)
    text = format_ in (None, "text") and output is None and "GITHUB_ACTIONS" not in os.environ
    if done.failed is None or not text or report.groups or report.unfused:
        emit(report, format_, output)  # else its error, which follows, is all that there is to say
    if done.interrupted:
        tell(f"interrupted; what was captured is in {done.capture.path}")
        return INTERRUPTED
    if done.failed is not None:
        raise done.failed
    if trace_file is not None:
        from fusiondoc.workflows.speed import named_trace_of

        packed = trace_file.suffix == ".gz"
        write_file(trace_file, named_trace_of(done.capture, done.report, packed), "--trace-file")
    return exit_status(report, fail_on)


_FORMATS = ("diff", "json", "markdown")
_ENDINGS = {".diff": "diff", ".patch": "diff", ".json": "json", ".md": "markdown"}


def _checked(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a file whose ending says no format before anything runs."""
    if value is not None and not value.parent.is_dir():
        raise UsageError(
            f"Cannot write {value}: there is no folder {value.parent}", "Make the folder, or choose another."
        )
    if value is not None and value.suffix.lower() not in _ENDINGS and not ctx.params.get("format_"):
        raise UsageError(
            f"{value}: no format has the ending {value.suffix or '(none)'}",
            f"Known: {', '.join(_ENDINGS)}; or name one with --format.",
        )
    return value


@click.command(name="fix")
@click.argument("target", shell_complete=complete_files)
@run_options
@click.option("--apply", "apply_", is_flag=True, help="Write the changes, with a backup beside each file.")
@click.option(
    "--force", is_flag=True, help="With --apply: also over changes that are not committed on those lines."
)
@click.option(
    "--inference", is_flag=True, help="Also try what changes the program for inference: eval mode, frozen."
)
@format_option(_FORMATS, "Of what is printed: the diff alone (default), or all that was tried.")
@output_option("Write it to this file; its ending gives the format.", callback=_checked)
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=MOST_TRIES,
    show_default=True,
    metavar="N",
    help="Run at most this many changed programs.",
)
@click.option(
    "--time/--no-time",
    "timed",
    default=True,
    help="Time what fuses more, and leave out what is slower (default).",
)
def fix_command(
    target: str,
    apply_: bool,
    force: bool,
    inference: bool,
    tries: int,
    timed: bool,
    format_: str | None,
    output: Path | None,
    **options: Any,
) -> int:
    """Find changes to the program of TARGET that let more of it fuse, and print them as a diff.

    Each change runs in a process of its own, on a changed copy of the file. It is kept if more is fused, if
    outputs and gradients stay the same and if it is not slower. The diff goes to stdout, the gain of each
    change and what did not help to stderr. Needs libcst: pip install 'fusiondoc[fix]'.

    \b
    Examples:
      fusiondoc fix model.py
      fusiondoc fix model.py:net --backward > fusion.diff
      fusiondoc fix model.py --backward --apply
      fusiondoc fix model.py -o fixes.json
    """
    # Here: --help and shell completion need none of it.
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.fixes.syntax import require_libcst
    from fusiondoc.reports import fixes_found
    from fusiondoc.runner.launch import terminal_progress
    from fusiondoc.workflows.fix import apply, fix_target, uncommitted

    require_libcst()
    if force and not apply_:
        raise UsageError("--force has no meaning without --apply", "Add --apply, or leave --force out.")
    request = make_request(target, (), options)
    if apply_ and not force and request.target.path is not None and uncommitted(request.target.path):
        name = _short(request.target.path)
        tell(f"note: {name} has changes that are not committed; --apply writes over none without --force")
    found = fix_target(
        request,
        CaptureStore(),
        inference=inference,
        most_tries=tries,
        timed=timed,
        tell=tell,
        progress=terminal_progress,
    )
    fixes, here = found.fixes, f"{request.cwd.resolve()}{os.sep}"
    kind = format_ or (_ENDINGS[output.suffix.lower()] if output is not None else "diff")
    write(_document(fixes, kind, here, output), output)
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else sys.maxsize
    # A document on stdout has all of it.
    told = fixes_found.lines(fixes, here)
    for line in told if kind == "diff" or output is not None else (fixes_found.verdict(fixes),):
        for part in fixes_found.within(line, width):
            tell(part)
    if apply_ and fixes.interrupted:
        tell("nothing was written")
    elif apply_:
        for path, backup in apply(found.files, request.cwd, force):
            tell(f"written: {_short(path)} (before: {_short(backup)})")
    elif found.files:
        names = [_short(one.source.path) for one in found.files]
        tell(f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not changed: --apply writes it")
    return INTERRUPTED if fixes.interrupted else 0


def _document(fixes: Fixes, kind: str, here: str, output: Path | None) -> str:
    from fusiondoc.reports import fixes_found
    from fusiondoc.reports.printable import visible

    if kind == "json":
        return fixes_found.as_json(fixes)
    if kind == "markdown":
        return fixes_found.as_markdown(fixes, here)
    # A terminal gets no control characters of the source; patch gets the diff as it is.
    return visible(fixes.diff) if output is None and sys.stdout.isatty() else fixes.diff


def _short(path: Path) -> str:
    here = Path.cwd().resolve()
    return str(path.relative_to(here)) if here in path.parents else str(path)
