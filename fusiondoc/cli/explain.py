"""``fusiondoc explain``: the pages on finding codes."""

from __future__ import annotations

import shutil
import textwrap

import click

from fusiondoc.cli import completion

_CLASSES = {
    "FD0": "Environment and knobs",
    "FD1": "Nothing to fuse yet",
    "FD2": "Operator not fused",
    "FD3": "Fallback, guard and crash",
    "FD4": "Kernel speed",
    "FD5": "Whole-model speed and numbers",
    "FD9": "The log itself",
}


@click.command("explain")
@click.argument("codes", nargs=-1, metavar="[CODE]...", shell_complete=completion.codes)
def command(codes: tuple[str, ...]) -> None:
    """Print the page of a finding code; without one, list all codes.

    \b
    Examples:
      fusiondoc explain
      fusiondoc explain FD201
    """
    from fusiondoc.cli.prose import reflow
    from fusiondoc.diagnosis.codes import CODES
    from fusiondoc.diagnosis.page import page

    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    if codes:
        # All are read before the first is printed, so that a slip prints nothing else.
        pages = [reflow(page(code).rstrip(), width) for code in codes]
        click.echo("\n\n".join(pages))
        return
    shown = ""
    for code in CODES.values():
        if not code.code.startswith(shown) or not shown:
            click.echo(("\n" if shown else "") + _CLASSES[code.code[:3]])
            shown = code.code[:3]
        start = f"  {code.code}  {code.severity:<8} "
        click.echo(textwrap.fill(start + code.title, width, subsequent_indent=" " * len(start)))
