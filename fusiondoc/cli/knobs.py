"""``fusiondoc knobs``: what can be toggled on this torch, and what each toggle really does."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import click

from fusiondoc.cli import completion
from fusiondoc.cli.say import say


@click.command("knobs")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.knobs)
@click.option("--python", metavar="PATH", help="The interpreter whose torch is looked at. Default: this one.")
@click.option("--all", "everything", is_flag=True, help="Also show what other torch versions have.")
@click.option(
    "--format", "-f", "form", type=click.Choice(["text", "json"]), default="text", help="Default: text."
)
def command(names: tuple[str, ...], python: str | None, everything: bool, form: str) -> None:
    """List knobs, environment variables, dump options and log files.

    The value of a knob here is found by setting another one and reading it back, on the torch of --python.
    NAME shows one in full: a knob, a function of torch._C, a variable, an option or a log file.

    \b
    Examples:
      fusiondoc knobs
      fusiondoc knobs single_node PYTORCH_NVFUSER_DUMP
      fusiondoc knobs --all --python old/bin/python --format json
    """
    from fusiondoc.cli import knobs_text
    from fusiondoc.fuser_knobs.overview import SCHEMA, find, overview
    from fusiondoc.runner.interpreter import find_python

    path = find_python(python or sys.executable)
    if names:
        # A slip is told at once, before torch is imported to look at values.
        for name in names:
            find(name, overview(None, (), {}))
    torch, records, note = _try(path)
    shown = overview(torch, records, os.environ)
    found = [entry for name in names for entry in find(name, shown)]
    if form == "json":
        content: dict[str, Any] = {"schema": SCHEMA, "python": str(path), "torch": torch, "note": note}
        content.update({"found": [{"kind": kind, **entry} for kind, entry in found]} if names else shown)
        say(json.dumps(content, indent=1))
        return
    width = max(60, min(shutil.get_terminal_size((80, 24)).columns, 110))
    if names:
        for index, (kind, entry) in enumerate(found):
            say(("\n" if index else "") + "\n".join(knobs_text.details(kind, entry, torch, width)))
        return
    head = f"torch {torch}  {path}" if torch else str(note)
    say("\n".join(textwrap.wrap(head, width, break_on_hyphens=False, break_long_words=False)) + "\n")
    for line in knobs_text.listing(shown, everything, width):
        say(line)


def _try(python: Path) -> tuple[str | None, tuple[Any, ...], str | None]:
    """The torch of the interpreter and the records of its knobs; without a usable torch a sentence why."""
    from fusiondoc.errors import CannotRun
    from fusiondoc.runner.interpreter import inspect, try_everything

    interpreter = inspect(python)
    if interpreter.torch is None:
        note = f"Values are unknown: {python} (Python {interpreter.python}) has no torch."
        return None, (), note + " Install it there, or give --python PATH of an interpreter that has it."
    try:
        return interpreter.torch, try_everything(python).knobs, None
    except CannotRun as error:
        return None, (), f"Values are unknown: {error.message}. {error.hint or ''}".strip()
