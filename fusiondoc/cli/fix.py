"""``fusiondoc fix``: changes to a program that let more of it fuse, each tried; as a diff, or applied."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from fusiondoc.cli import completion
from fusiondoc.cli.options import make_request, run_options
from fusiondoc.cli.output import write
from fusiondoc.cli.say import tell
from fusiondoc.errors import INTERRUPTED


@click.command(name="fix")
@click.argument("target", shell_complete=completion.files)
@run_options
@click.option("--apply", "apply_", is_flag=True, help="Write the changes, with a backup beside each file.")
@click.option(
    "--force", is_flag=True, help="With --apply: also over changes that are not committed on those lines."
)
@click.option(
    "--inference", is_flag=True, help="Also try what changes the program for inference: eval mode, frozen."
)
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=24,
    show_default=True,
    metavar="N",
    help="Run at most so many changed programs.",
)
@click.option(
    "--time/--no-time",
    "timed",
    default=True,
    help="Time what fuses more, and leave out what is slower (default).",
)
def command(
    target: str, apply_: bool, force: bool, inference: bool, tries: int, timed: bool, **options: Any
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
    """
    # Here: --help and shell completion need none of it.
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.errors import UsageError
    from fusiondoc.fixes.syntax import require_libcst
    from fusiondoc.reports.printable import visible
    from fusiondoc.reports.text import fixes_found
    from fusiondoc.runner.progress import terminal_progress
    from fusiondoc.workflows.fix import fix_target
    from fusiondoc.workflows.fix_apply import apply

    require_libcst()
    if force and not apply_:
        raise UsageError("--force has no meaning without --apply", "Add --apply, or leave --force out.")
    request = make_request(target, (), options)
    found = fix_target(
        request,
        CaptureStore(),
        inference=inference,
        most_tries=tries,
        timed=timed,
        tell=tell,
        progress=terminal_progress,
    )
    # A terminal gets no control characters of the source; patch gets the diff as it is.
    write(visible(found.fixes.diff) if sys.stdout.isatty() else found.fixes.diff, None)
    for line in fixes_found.lines(found.fixes, f"{request.cwd.resolve()}{os.sep}"):
        tell(line)
    if apply_ and found.files and not found.fixes.interrupted:
        for path, backup in apply(found.files, request.cwd, force):
            tell(f"written: {_short(path)} (before: {_short(backup)})")
    return INTERRUPTED if found.fixes.interrupted else 0


def _short(path: Path) -> str:
    here = Path.cwd().resolve()
    return str(path.relative_to(here)) if here in path.parents else str(path)
