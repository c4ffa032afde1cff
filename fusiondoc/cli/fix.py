"""``fusiondoc fix``: changes to a program that let more of it fuse, each tried; as
a diff, or applied."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc.cli.help import CommandWithShortHelp
from fusiondoc.cli.options import make_request, run_options
from fusiondoc.cli.output import (
    complete_files,
    format_option,
    notify,
    output_option,
    write,
)
from fusiondoc.errors import INTERRUPTED, UsageError
from fusiondoc.model.change_plan import MOST_TRIES

if TYPE_CHECKING:
    from fusiondoc.model.change_plan import Fixes
    from fusiondoc.workflows.fix import FixesFound

_FORMATS = ("diff", "json", "markdown")
_ENDINGS = {".diff": "diff", ".patch": "diff", ".json": "json", ".md": "markdown"}


def _checked(
    ctx: click.Context, _: click.Parameter, value: Path | None
) -> Path | None:
    """Refuse a file with the extension of no format before anything runs."""
    if value is not None and not value.parent.is_dir():
        raise UsageError(
            f"cannot write {value}: there is no folder {value.parent}",
            "Make the folder, or choose another.",
        )
    if (
        value is not None
        and value.suffix.lower() not in _ENDINGS
        and not ctx.params.get("format_")
    ):
        raise UsageError(
            f"{value}: no format has the ending {value.suffix or '(none)'}",
            f"Known: {', '.join(_ENDINGS)}; or name one with --format.",
        )
    return value


@click.command(name="fix", cls=CommandWithShortHelp)
@click.argument("target", shell_complete=complete_files)
@run_options
@click.option(
    "--apply",
    "apply_",
    is_flag=True,
    help="Write the changes, with a backup beside each file.",
)
@click.option(
    "--force",
    is_flag=True,
    help="With --apply: also over changes that are not committed on those lines.",
)
@click.option(
    "--inference",
    is_flag=True,
    help="Also try changes that are for inference only: eval mode, freezing.",
)
@click.option(
    "--allow-signature",
    is_flag=True,
    help="Also try changes of a function's arguments, such as a type without Optional.",
)
@format_option(
    _FORMATS, "Print the diff alone (default), or every change that was tried."
)
@output_option(
    "Write it to this file; its ending gives the format.", callback=_checked
)
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
    help="Time each change that fuses more, and drop those that are slower (default).",
)
def command(
    target: str,
    apply_: bool,
    force: bool,
    inference: bool,
    allow_signature: bool,
    tries: int,
    timed: bool,
    format_: str | None,
    output: Path | None,
    **options: Any,
) -> int:
    """Find changes to the program of TARGET that let more of it fuse, and print them as a diff.

    Each change runs in a process of its own, on a changed copy of the file. It is kept if more is fused, if
    outputs and gradients stay the same and if it is not slower. The diff goes to stdout, the gain of each
    change and what did not help to stderr.

    \b
    Examples:
      fusiondoc fix model.py
      fusiondoc fix model.py:net --backward > fusion.diff
      fusiondoc fix model.py --backward --apply
      fusiondoc fix model.py -o fixes.json
    """
    # Here: --help and shell completion need none of it.
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.runner.launch import terminal_progress
    from fusiondoc.views import fix_words
    from fusiondoc.workflows.fix import apply, fix_target

    if force and not apply_:
        raise UsageError(
            "--force has no meaning without --apply",
            "Add --apply, or leave --force out.",
        )
    request = make_request(target, (), options)
    if apply_ and not force:
        _note_uncommitted(request.target.path)
    found = fix_target(
        request,
        CaptureStore(),
        inference=inference,
        allow_signature=allow_signature,
        most_tries=tries,
        timed=timed,
        notify=notify,
        progress=terminal_progress,
    )
    fixes, here = found.fixes, f"{request.cwd.resolve()}{os.sep}"
    kind = format_ or (
        _ENDINGS[output.suffix.lower()] if output is not None else "diff"
    )
    write(_document(fixes, kind, here, output), output)
    if kind == "diff" or output is not None:
        _notify_lines(fix_words.lines(fixes, here))
    else:  # the document on stdout has all of it
        _notify_lines([fix_words.verdict(fixes)])
    if not apply_:
        _note_unchanged(found)
    elif fixes.interrupted:
        notify("nothing was written")
    else:
        for path, backup in apply(found.files, request.cwd, force):
            notify(f"written: {_short(path)} (before: {_short(backup)})")
    if fixes.interrupted:
        return INTERRUPTED
    return 0


def _note_unchanged(found: FixesFound) -> None:
    names = [_short(changed_file.source.path) for changed_file in found.files]
    if names:
        notify(
            f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not changed: --apply writes it"
        )


def _note_uncommitted(path: Path | None) -> None:
    from fusiondoc.workflows.git_files import uncommitted

    if path is not None and uncommitted(path):
        name = _short(path)
        notify(
            f"note: {name} has changes that are not committed; --apply writes over none without --force"
        )


def _notify_lines(lines: Iterable[str]) -> None:
    """Print lines for the user, each within the width of the terminal."""
    from fusiondoc.views import fix_words

    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
    else:
        width = sys.maxsize
    for line in lines:
        for part in fix_words.within(line, width):
            notify(part)


def _document(fixes: Fixes, kind: str, here: str, output: Path | None) -> str:
    from fusiondoc.rendering.printable import visible
    from fusiondoc.reports import fixes_found, json_format

    if kind == "json":
        return json_format.as_json(fixes)
    if kind == "markdown":
        return fixes_found.as_markdown(fixes, here)
    # A terminal gets no control characters from the source; patch gets the
    # unchanged diff.
    if output is None and sys.stdout.isatty():
        return visible(fixes.diff)
    return fixes.diff


def _short(path: Path) -> str:
    here = Path.cwd().resolve()
    if here in path.parents:
        return str(path.relative_to(here))
    return str(path)
