"""``fusiondoc captures``: list the captures in ``.fusiondoc/`` of the current
folder."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import click

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import RunSeconds
from fusiondoc.captures.probe_records import FuserSwitch
from fusiondoc.captures.store import CaptureStore, given_name, is_kept
from fusiondoc.cli.options import captures_option
from fusiondoc.cli.output import (
    complete_captures,
    format_option,
    notify,
    print_result,
)
from fusiondoc.errors import UsageError
from fusiondoc.masking import masked_in
from fusiondoc.probe import first_line
from fusiondoc.rendering.printable import one_line, visible

SCHEMA = "fusiondoc.captures/1"

_format = format_option()


@click.group("captures", invoke_without_command=True)
@_format
@click.pass_context
@captures_option
def command(context: click.Context, format_: str | None) -> None:
    """List, show and remove the captures in .fusiondoc/; without a subcommand: list.

    The newest 20 captures stay (--keep-last of the commands that run a model), and those that were named
    (--name) or kept (`keep`). A capture is named by its folder, its name, latest, latest~1 (the one
    before) and so on, or a part of its folder's name that only one has, here and in parse, kernels, check,
    compare, repro and bundle.

    \b
    Examples:
      fusiondoc captures                     newest first
      fusiondoc captures show bias_gelu      by name, or a part that only one has
      fusiondoc captures show latest~1       the one before the newest
      fusiondoc captures keep bias_gelu      until it is removed by name
      fusiondoc captures remove --all
    """
    if context.invoked_subcommand is None:
        _print_list(format_)


@command.command("list")
@_format
@captures_option
def list_(format_: str | None) -> None:
    """List the captures, newest first.

    \b
    Example:
      fusiondoc captures list --format json
    """
    _print_list(format_)


@command.command(short_help="Show the request and how the run ended.")
@click.argument("name", required=False, shell_complete=complete_captures)
@_format
@captures_option
def show(name: str | None, format_: str | None) -> None:
    """Show the options of a run and how it ended (without NAME: of the newest).

    \b
    Example:
      fusiondoc captures show 20260102-030405-model
    """
    store = CaptureStore()
    capture = store.get(name) if name else store.newest()
    if format_ == "json":
        print_result(
            json.dumps({"schema": SCHEMA, "capture": capture.document()}, indent=1)
        )
        return
    from fusiondoc.rendering.drawing import drawn, names_and_texts

    known = []
    for title, value in masked_in(_details(capture)):
        if value:
            known.append((f"{title}:", visible(value)))
    table = names_and_texts(len("variables: "))
    for row in known:
        table.add_row(*row)
    # Paths and commands are copied from here: their lines stay whole.
    longest = max(len(line) for _, value in known for line in value.split("\n"))
    print_result(drawn(table, longest + 20, colour=False), nl=False)


@command.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_captures)
@captures_option
def keep(names: tuple[str, ...]) -> None:
    """Keep captures until they are removed by name, however many newer ones there are.

    \b
    Example:
      fusiondoc captures keep 20260102-030405-model
    """
    for name in CaptureStore().keep(*names):
        print_result(f"kept {name}")


@command.command()
@click.argument("names", nargs=-1, shell_complete=complete_captures)
@click.option(
    "--all", "every", is_flag=True, help="Remove all captures of this folder."
)
@captures_option
def remove(names: tuple[str, ...], every: bool) -> None:
    """Remove captures by name.

    \b
    Example:
      fusiondoc captures remove 20260102-030405-model
    """
    if every == bool(names):
        raise UsageError(
            "name the captures to remove, or give --all",
            "fusiondoc captures lists them.",
        )
    store = CaptureStore()
    removed = store.remove_all() if every else store.remove(*names)
    for name in removed:
        print_result(f"removed {name}")
    if not removed:
        notify("there are no captures")


def _print_list(format_: str | None) -> None:
    captures = CaptureStore().list()
    if format_ == "json":
        rows = [_summary(capture) for capture in captures]
        print_result(json.dumps({"schema": SCHEMA, "captures": rows}, indent=1))
        return
    if not captures:
        notify(
            "There are no captures here. Make one with: fusiondoc diagnose TARGET"
        )
        return
    _print_lines(_lines_of(captures))


def _lines_of(captures: Sequence[Capture]) -> list[tuple[str, ...]]:
    """The cells of the table, heads first; KEPT is a column only where one is
    kept."""
    kept = any(is_kept(capture.path) for capture in captures)
    heads = (
        "NAME",
        *(("KEPT",) if kept else ()),
        "FUSER",
        "TORCH",
        "ENDED",
        "TARGET",
    )
    lines: list[tuple[str, ...]] = [heads]
    for capture in captures:
        row = _summary(capture)
        stays = (
            (row["given_name"] or ("yes" if row["kept"] else ""),) if kept else ()
        )
        line = (
            row["name"],
            *stays,
            row["fuser"] or "?",
            row["torch"] or "?",
            row["ended"],
            row["target"],
        )
        lines.append(tuple(map(one_line, line)))
    return lines


def _print_lines(lines: Sequence[tuple[str, ...]]) -> None:
    """Print the lines. The last column is the target; only as much of its end as
    fits is shown."""
    from rich.table import Table

    from fusiondoc.rendering.drawing import drawn

    others = 0
    for column in range(len(lines[0]) - 1):
        others += max(len(line[column]) for line in lines) + 2
    left = max(_LEAST_TARGET, shutil.get_terminal_size((80, 24)).columns - others)
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for *words, target in lines:
        table.add_row(
            *words, target if len(target) <= left else "…" + target[1 - left :]
        )
    print_result(drawn(table, others + left, colour=False), nl=False)


_LEAST_TARGET = 12
"""Least columns of a target in the list; of a longer target the end is shown."""


def _summary(capture: Capture) -> dict[str, Any]:
    return {
        "name": capture.name,
        "path": str(capture.path),
        "kept": is_kept(capture.path),
        "given_name": given_name(capture.path),
        "created": capture.request.created,
        "target": capture.request.target.text or "?",
        "torch": capture.request.torch,
        "fuser": capture.records.fuser.effective,
        "ended": capture.result.in_words,
        "seconds": capture.result.seconds.child,
    }


def _details(capture: Capture) -> list[tuple[str, str]]:
    request, records = capture.request, capture.records
    variables = []
    for name, value in request.environment_set.items():
        variables.append(f"{name}={value}")
    size = capture.log_path.stat().st_size if capture.log_path.exists() else 0
    return [
        ("capture", str(capture.path)),
        ("made", f"{request.created} by fusiondoc {request.fusiondoc}"),
        ("command", " ".join(request.command)),
        ("target", str(request.target.text)),
        ("model", request.model or ""),
        (
            "options",
            " ".join(
                f"{option.name}={shlex.quote(option.value)}"
                for option in request.options.values_in_words()
            ),
        ),
        ("python", f"{request.python} ({request.python_version})"),
        ("torch", str(request.torch)),
        ("gpu", records.environment.gpu or ""),
        ("fuser", _fuser(records.fuser)),
        ("variables", "\n".join(variables)),
        ("merged", ", ".join(request.merged)),
        ("ended", capture.result.in_words),
        ("error", first_line(records.error.message) if records.error else ""),
        ("seconds", ", ".join(_seconds(capture.result.seconds))),
        ("log", f"{capture.log_path} ({size} bytes)"),
    ]


def _fuser(switch: FuserSwitch) -> str:
    if switch.why:
        return f"{switch.effective or ''} ({switch.why})"
    return switch.effective or ""


def _seconds(measured: RunSeconds) -> Iterator[str]:
    if measured.child is not None:
        yield f"{measured.child:.2f} in the model's process"
    if measured.overhead is not None:
        yield f"{measured.overhead:.2f} added by fusiondoc"
