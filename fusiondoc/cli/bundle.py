"""``fusiondoc bundle``: a capture as one file for a bug report."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusiondoc.cli.options import captures_option
from fusiondoc.cli.output import (
    complete_captures,
    notify,
    output_option,
    print_result,
)
from fusiondoc.errors import UsageError

if TYPE_CHECKING:
    from fusiondoc.workflows.bundle import Bundle


@click.command("bundle")
@click.argument(
    "capture", required=False, metavar="[CAPTURE]", shell_complete=complete_captures
)
@output_option(
    "A .tar.xz or .zip file; by default CAPTURE.tar.xz in this folder.",
    metavar="FILE",
)
@click.option(
    "--no-source", is_flag=True, help="Leave out the copies of your Python files."
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be in it, and write nothing."
)
@captures_option
def command(
    capture: str | None, output: Path | None, no_source: bool, dry_run: bool
) -> int:
    """Pack a capture for a bug report, with names and secrets replaced; without CAPTURE, the newest.

    User, host, home folder, project folder, folders below /opt and its like, and e-mail addresses become
    other names, and what looks like a secret becomes ***, in every file: also in the log and in copies of
    your sources. The table says what was replaced where, and the lines below it which kinds of secrets were
    looked for; no list of kinds is complete, so look at the file before you send it. `fusiondoc parse FILE`
    makes the same report of it; a bundle is never run again.

    \b
    Examples:
      fusiondoc bundle --dry-run              what would be in it
      fusiondoc bundle bias_gelu -o gelu.tar.xz
      fusiondoc parse gelu.tar.xz
    """
    from fusiondoc.captures.capture import Capture
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.workflows import is_capture
    from fusiondoc.workflows.archives import ENDINGS, is_archive_name
    from fusiondoc.workflows.bundle import bundle

    if output is not None and not is_archive_name(output.name):
        raise UsageError(
            f"{output}: a bundle is a {' or '.join(ENDINGS)} file",
            "For example: -o report.tar.xz",
        )
    if capture is None:
        found = CaptureStore().newest()
    else:
        path = Path(capture)
        found = Capture(path) if is_capture(path) else CaptureStore().get(capture)
    if output is None:
        name = re.sub(r"[^\w.=+-]", "_", found.path.resolve().name, flags=re.ASCII)
        output = Path(f"{name}.tar.xz")
    try:
        done = bundle(found, None if dry_run else output, not no_source)
    except OSError as error:
        raise UsageError(
            f"cannot write {output}: {error.strerror}",
            "Name another file with -o; the folder for temporary files (TMPDIR) needs space too.",
        ) from None
    _show(done, None if dry_run else output)
    return 0


def _show(done: Bundle, output: Path | None) -> None:
    """Print the content of the bundle, and the number of replacements of each
    kind."""
    from rich.table import Table

    from fusiondoc.rendering.drawing import drawn
    from fusiondoc.rendering.units import size
    from fusiondoc.workflows.more_secrets import EXTRA, is_installed

    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("FILE", "SIZE", "REPLACED")
    for packed_file in done.files:
        parts = []
        for kind, number in packed_file.replaced.items():
            parts.append(f"{kind} {number}")
        replaced = ", ".join(parts)
        table.add_row(
            packed_file.name, size(packed_file.size), replaced or "nothing"
        )
    print_result(
        drawn(table, shutil.get_terminal_size((80, 24)).columns, colour=False),
        nl=False,
    )
    if done.left_out:
        notify(f"left out: {', '.join(done.left_out)}")
    notify("secrets were looked for of these kinds:")
    for kind in done.looked_for:
        notify(f"  {kind}")
    if not is_installed():
        notify(
            f"the rules of detect-secrets know more services: pip install 'fusiondoc[{EXTRA}]'"
        )
    if output is None:
        notify("nothing was written (--dry-run)")
    else:
        notify(
            f"wrote {output} ({size(output.stat().st_size)}); look at it before you send it, and"
        )
        notify(f"read it with: fusiondoc parse {output}")
