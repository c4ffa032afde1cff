"""``fusiondoc knobs``: the switches of this torch, and the effect of each, for
terminals of 80 columns and more."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.cli.output import complete_knobs, format_option, print_result
from fusiondoc.fusers import FUSERS
from fusiondoc.rendering.drawing import drawn, names_and_texts

if TYPE_CHECKING:
    from fusiondoc.fuser_knobs.overview import Entry, KnobHere, Overview
    from fusiondoc.model.runs import TriedKnob

_HEADINGS = {
    **{fuser.name: fuser.heading or fuser.title for fuser in FUSERS.values()},
    "executor": "Executor (all fusers)",
    "log": "Log",
}
_NAME = 24


def listing(shown: Overview, everything: bool, width: int) -> Iterator[str]:
    """Yield the lines of the overview; without ``everything`` only entries that
    have an effect on this torch."""
    known = shown.torch is not None
    yield from _knobs(shown, everything or not known, width)
    yield from _variables(shown, everything or not known, width)
    for variable, options in shown.options.items():
        live = []
        for option in options:
            if everything or option.live or not known:
                live.append(option)
        if live:
            yield ""
            yield f"OPTIONS OF {variable}" + (
                "" if everything or not known else f" for torch {shown.torch}"
            )
            for option in live:
                versions = f" ({option.live_in})" if everything or not known else ""
                yield from _entry(option.name, option.does + versions, width)
    yield from _dumps(shown, everything or not known, width)
    yield from _log_files(shown, everything, width)
    yield from _problems(shown, width)


def _knobs(shown: Overview, everything: bool, width: int) -> Iterator[str]:
    no_ops = [knob for knob in shown.knobs if knob.no_op]
    yield from _row(
        width, (_NAME, "KNOB"), (22, "VALUE HERE"), (0, "LIVE IN TORCH")
    )
    for fuser, title in _HEADINGS.items():
        listed = []
        for knob in shown.knobs:
            if knob.fuser == fuser and (everything or knob not in no_ops):
                listed.append(knob)
        if listed:
            yield f"-- {title}"
        for knob in listed:
            yield from _row(
                width,
                (_NAME, knob.name),
                (22, value(knob, shown.torch)),
                (0, knob.live_in),
            )
            why = knob.why if knob.live is False else None
            here = f" Here: {why.rstrip('.')}." if why else ""
            yield from _wrapped(
                f"{knob.does} Default: {knob.default}.{here}", width
            )
    if no_ops and not everything:
        yield ""
        names = ", ".join(knob.name for knob in no_ops)
        text = f"No-ops on torch {shown.torch}: {names}. They still exist, take any value and do nothing "
        text += "(--all shows them)."
        yield from _lines(Text(text), width)


def value(knob: KnobHere, torch: str | None) -> str:
    """The current value of the knob on this torch, in a few words."""
    if torch is None:
        return "unknown"
    if knob.effective is not None:
        shown = knob.effective or "empty"
        if knob.live is False:
            return f"{shown} (fixed)"
        return str(shown)
    if knob.live is False:
        return "does nothing"
    return "cannot be read"


def _variables(shown: Overview, everything: bool, width: int) -> Iterator[str]:
    yield ""
    yield from _row(
        width, (44, "ENVIRONMENT VARIABLE"), (14, "NOW"), (0, "READ BY TORCH")
    )
    for variable in shown.variables:
        if not everything and not variable.live and variable.current is None:
            continue
        current = "-" if variable.current is None else f"'{variable.current}'"
        short = current if len(current) < 14 else "see below"
        yield from _row(
            width, (44, variable.name), (14, short), (0, variable.live_in)
        )
        expected = f" Value: {variable.value}." if variable.value else ""
        now = "" if short == current else f" Now: {current}."
        yield from _wrapped(variable.does + expected + now, width)


def _dumps(shown: Overview, everything: bool, width: int) -> Iterator[str]:
    live = [dump for dump in shown.dumps if everything or dump.live]
    if live:
        yield ""
        yield "OTHER DUMPS, for fusiondoc kernels --dump"
    for dump in live:
        versions = f" ({dump.live_in})" if everything else ""
        yield from _entry(dump.name, dump.does + versions, width)


def _log_files(shown: Overview, everything: bool, width: int) -> Iterator[str]:
    files = []
    for log_file in shown.log_files:
        if everything or (log_file.does and log_file.live is not False):
            files.append(log_file)
    yield ""
    yield "FILES FOR PYTORCH_JIT_LOG_LEVEL, at the lowest level that prints (> is more)"
    for log_file in files:
        if log_file.does:
            versions = f" ({log_file.live_in})" if everything else ""
            yield from _entry(log_file.least, log_file.does + versions, width, 34)
    others = []
    for log_file in files:
        if not log_file.does:
            others.append(log_file.least)
    if others:
        yield from _lines(Text("Not about fusion: " + ", ".join(others)), width)


def _problems(shown: Overview, width: int) -> Iterator[str]:
    if shown.problems:
        yield ""
        yield "IN THIS ENVIRONMENT"
        for text in shown.problems:
            marked = names_and_texts(1, gap=1)
            marked.add_row("!", text)
            yield from _lines(marked, width)


def details(
    kind: str, entry: Entry, torch: str | None, width: int
) -> Iterator[str]:
    """All lines on a single entry."""
    from fusiondoc.fuser_knobs.overview import KnobHere, VariableHere

    yield f"{entry.name}  ({kind})"
    yield from _wrapped(
        entry.does or "Writes to the JIT log, but not about fusion.", width
    )
    rows = _rows_of(entry, torch)
    rows += [
        (
            "live in",
            entry.live_in
            if "package" in entry.live_in
            else "torch " + entry.live_in,
        )
    ]
    if isinstance(entry, KnobHere) and entry.exists_in != entry.live_in:
        rows += [
            ("exists in", f"torch {entry.exists_in}, outside the above as a no-op")
        ]
    if isinstance(entry, (KnobHere, VariableHere)):
        rows += [("source", entry.source)]
    for name, text in rows:
        if text:
            yield from _entry("  " + name, text, width, 14)


def _rows_of(entry: Entry, torch: str | None) -> list[tuple[str, str | None]]:
    """Return the rows for an entry, according to its kind."""
    from fusiondoc.fuser_knobs.overview import (
        DumpHere,
        KnobHere,
        OptionHere,
        VariableHere,
    )

    if isinstance(entry, KnobHere):
        where = f" on torch {torch}" if torch else ": no torch to try it on"
        return [
            ("values", entry.value),
            ("example", _example(entry)),
            ("default", entry.default),
            ("here", value(entry, torch) + where),
            ("why", entry.why),
            ("effect", entry.effect),
            ("in Python", ", ".join(entry.functions)),
        ]
    if isinstance(entry, VariableHere):
        return [
            ("values", entry.value),
            ("default", entry.default or "not set"),
            ("options", ", ".join(entry.options or ())),
            ("now", "not set" if entry.current is None else f"'{entry.current}'"),
            *(("problem", problem) for problem in entry.problems),
        ]
    if isinstance(entry, OptionHere):
        return [("stream", entry.stream)]
    if isinstance(entry, DumpHere):
        needs = " ".join(f"{name}='{value}'" for name, value in entry.needs.items())
        return [
            ("example", f"fusiondoc kernels --dump {entry.name}"),
            ("set by it", needs),
        ]
    return [
        ("write", f"PYTORCH_JIT_LOG_LEVEL='{entry.least}', or more of > for more")
    ]


def _example(knob: KnobHere) -> str | None:
    values = {
        "on or off": "off" if knob.default.startswith("on") else "on",
        "a whole number of 0 or more": "2",
        "a whole number": "2",
        "stdout or stderr": "stdout",
    }
    sample = values.get(knob.value) or knob.value.partition(" such as ")[2]
    if sample:
        return f"--knob {knob.name}={sample}"
    return None


def _entry(name: str, text: str, width: int, indent: int = _NAME) -> list[str]:
    table = names_and_texts(max(indent - 1, len(name)), gap=1)
    table.add_row(name, text)
    return _lines(table, width)


def _wrapped(text: str, width: int) -> list[str]:
    return _lines(Padding(Text(text), (0, 0, 0, 4)), width)


def _row(width: int, *cells: tuple[int, str]) -> list[str]:
    """Format cells with the least number of columns of each; the last cell gets the
    rest and is never cut."""
    table = Table.grid(pad_edge=False)
    for least, text in cells:
        table.add_column(no_wrap=True, min_width=max(least, len(text)))
    table.add_row(*(text for _, text in cells))
    return _lines(
        table, max(width, sum(max(least, len(text)) for least, text in cells))
    )


def _lines(content: RenderableType, width: int) -> list[str]:
    return drawn(content, width, colour=False).rstrip("\n").split("\n")


@click.command("knobs")
@click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=complete_knobs
)
@click.option(
    "--python",
    metavar="PATH",
    help="The interpreter whose torch is looked at. Default: this one.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also show what other torch versions have.",
)
@format_option()
def command(
    names: tuple[str, ...],
    python: str | None,
    everything: bool,
    format_: str | None,
) -> None:
    """List knobs, environment variables, dump options and log files.

    The value of a knob here is found by setting another one and reading it back, on the torch of --python.
    NAME shows one in full: a knob, a function of torch._C, a variable, an option or a log file.

    \b
    Examples:
      fusiondoc knobs
      fusiondoc knobs fusion_strategy PYTORCH_JIT_LOG_LEVEL
      fusiondoc knobs --all --python old/bin/python --format json
    """
    from fusiondoc.fuser_knobs.overview import SCHEMA, find, overview
    from fusiondoc.model.typed_fields import as_json
    from fusiondoc.runner.interpreter import find_python

    path = find_python(python or sys.executable)
    if names:
        # A misspelling is reported at once, before torch is imported to read
        # values.
        for name in names:
            find(name, overview(None, (), {}))
    torch, tried, note = _try(path)
    shown = overview(torch, tried, os.environ)
    found = [entry for name in names for entry in find(name, shown)]
    if format_ == "json":
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "python": str(path),
            "torch": torch,
            "note": note,
        }
        entries = [{"kind": kind, **as_json(entry)} for kind, entry in found]
        content.update({"found": entries} if names else as_json(shown))
        print_result(json.dumps(content, indent=1))
        return
    width = max(60, min(shutil.get_terminal_size((80, 24)).columns, 110))
    if names:
        for index, (kind, entry) in enumerate(found):
            print_result(
                ("\n" if index else "")
                + "\n".join(details(kind, entry, torch, width))
            )
        return
    head = f"torch {torch}  {path}" if torch else str(note)
    print_result(
        "\n".join(
            textwrap.wrap(
                head, width, break_on_hyphens=False, break_long_words=False
            )
        )
        + "\n"
    )
    for line in listing(shown, everything, width):
        print_result(line)


def _try(python: Path) -> tuple[str | None, tuple[TriedKnob, ...], str | None]:
    """Return the interpreter's torch and its tried knobs; without a usable torch a
    sentence with the reason."""
    from fusiondoc.errors import CannotRun
    from fusiondoc.runner.interpreter import inspect, try_everything

    interpreter = inspect(python)
    if interpreter.torch is None:
        note = f"Values are unknown: {python} (Python {interpreter.python}) has no torch."
        return (
            None,
            (),
            note
            + " Install it there, or give --python PATH of an interpreter that has it.",
        )
    try:
        return interpreter.torch, try_everything(python).knobs, None
    except CannotRun as error:
        return (
            None,
            (),
            f"Values are unknown: {error.message}. {error.hint or ''}".strip(),
        )
