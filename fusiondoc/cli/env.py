"""``fusiondoc env``: the fusers that can run here, and the settings that the user's
own launcher needs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc.cli.options import export_options, make_request
from fusiondoc.cli.output import format_option, print_result
from fusiondoc.errors import UsageError
from fusiondoc.fusers import choices, facts_of, with_evaluator

if TYPE_CHECKING:
    from fusiondoc.runner.interpreter import Tried, TriedFuser

SCHEMA = "fusiondoc.env/1"


@click.command("env")
@click.option(
    "--export",
    "export",
    metavar="TARGET",
    help="Print variables and lines for your own launcher.",
)
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the memory bandwidth of the GPU; reports then use it.",
)
@click.argument("script_args", nargs=-1, type=click.UNPROCESSED, metavar="")
@export_options
@format_option()
def command(
    export: str | None,
    measure: bool,
    script_args: tuple[str, ...],
    format_: str | None,
    **options: Any,
) -> None:
    """Show which fusers this machine can run, and what to install for the others.

    With --export TARGET: the exact variables and Python lines that make your own launcher log what diagnose
    would record.

    \b
    Examples:
      fusiondoc env
      fusiondoc env --python .venv/bin/python --format json
      fusiondoc env --measure
      fusiondoc env --export train.py --knob fusion_strategy=STATIC:20
    """
    if export is not None:
        if measure:
            raise UsageError(
                "--measure and --export do not go together",
                "Run them one after the other.",
            )
        _export(export, script_args, options, format_)
        return
    if script_args:
        raise UsageError(
            f"unexpected argument '{script_args[0]}'",
            "For a target: fusiondoc env --export TARGET",
        )
    from fusiondoc.runner import remembered_bandwidth
    from fusiondoc.runner.interpreter import (
        inspect,
        measure_bandwidth,
        try_everything,
    )

    interpreter = inspect(options["python"] or sys.executable)
    measured = measure_bandwidth(interpreter.path) if measure else None
    tried = try_everything(interpreter.path, fresh=True)
    gpu = tried.environment.gpu
    rate = (
        measured.gb_per_s
        if measured is not None
        else remembered_bandwidth(gpu)
        if gpu
        else None
    )
    if format_ == "json":
        found = {**asdict(tried.environment), "gpu_measured_gb_per_s": rate}
        fusers = [{**asdict(row), "install": _install(row)} for row in tried.fusers]
        print_result(
            json.dumps(
                {"schema": SCHEMA, "environment": found, "fusers": fusers}, indent=1
            )
        )
        return
    _print(str(interpreter.path), tried, rate)


def _install(row: TriedFuser) -> str | None:
    if row.available:
        return None
    return facts_of(row.fuser).limits.where


def _print(python: str, tried: Tried, measured: float | None) -> None:
    found = tried.environment
    build = f"CUDA {found.cuda}" if found.cuda else "no CUDA"
    llvm = "LLVM" if found.llvm else "no LLVM"
    print_result(f"python  {found.python}  {python}")
    print_result(
        f"torch   {found.torch}  (build: {build}, {llvm} for {with_evaluator()} on the CPU)"
    )
    gpu = found.gpu
    if gpu:
        capability = ".".join(map(str, found.capability or ()))
        bandwidth = found.gpu_memory_gb_per_s
        speed = f", memory {bandwidth:,.0f} GB/s" if bandwidth else ""
        print_result(
            f"gpu     {gpu}  (compute capability {capability}{speed}; {found.gpu_count} in all)"
        )
        if measured is not None:
            share = f", {measured / bandwidth:.0%} of that" if bandwidth else ""
            print_result(
                f"        a large copy within its memory: {measured:,.0f} GB/s{share}"
            )
        else:
            print_result(
                "        to measure its memory bandwidth: fusiondoc env --measure"
            )
    else:
        print_result("gpu     none that torch sees")
    print_result("")
    print_result(_fusers(tried), nl=False)
    print_result("\nWhat each switch does on this torch: fusiondoc knobs")


def _fusers(tried: Tried) -> str:
    """A row for each fuser: whether it can run here, why, and its requirements."""
    from rich.table import Table

    from fusiondoc.rendering.drawing import drawn, names_and_texts

    table = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, min_width=8)
    table.add_column(no_wrap=True, min_width=4)
    table.add_column(overflow="fold")
    for row in sorted(tried.fusers, key=lambda row: choices().index(row.fuser)):
        table.add_row(row.fuser, "yes" if row.available else "no", str(row.why))
        needed = _install(row)
        if needed:
            needs = names_and_texts(len("needs"), gap=1)
            needs.add_row("needs", needed)
            table.add_row("", "", needs)
    return drawn(
        table, min(shutil.get_terminal_size((80, 24)).columns, 110), colour=False
    )


def _export(
    target: str,
    script_args: tuple[str, ...],
    options: dict[str, Any],
    format_: str | None,
) -> None:
    from fusiondoc.fuser_knobs.checks import check_knob
    from fusiondoc.runner.interpreter import inspect, try_everything
    from fusiondoc.runner.own_launcher import choose_fuser, export
    from fusiondoc.runner.run_variables import run_environment

    request = make_request(target, script_args, options)
    interpreter = inspect(request.python)
    torch = interpreter.require_torch()
    tried = try_everything(interpreter.path)
    fuser, why = choose_fuser(request.fuser, tried)
    for name, value in request.knobs.items():
        check_knob(name, value, torch)
    environment = run_environment(
        torch, interpreter.torch_cuda, fuser, request.dumps, os.environ
    )
    made = export(fuser, request.knobs, environment, tried)
    if format_ == "json":
        content = {
            "schema": SCHEMA,
            "target": request.target.as_json(),
            "fuser": fuser,
            "why": why,
            "shell": list(made.shell),
            "python": list(made.python),
            "merged": list(environment.merged),
        }
        print_result(json.dumps(content, indent=1))
        return
    launcher = (
        request.target.path
        if request.target.path and request.target.kind == "file"
        else "launcher.py"
    )
    print_result(f"# {fuser} on torch {torch} ({why})")
    print_result("# 1. In the shell, before the launcher starts:")
    for line in made.shell:
        print_result(line)
    if environment.merged:
        print_result(f"# Your own {' and '.join(environment.merged)} is merged in.")
    print_result("\n# 2. In Python, as the first lines of the launcher:")
    for line in made.python:
        print_result(line)
    print_result(
        "\n# 3. Run the model at least three times (profile, compile, run), and read its log:"
    )
    print_result(f"#    {_how_to_start(interpreter.path, launcher)}")


def _how_to_start(python: Path, launcher: Path | str) -> str:
    """The command that starts the program, as a line for a POSIX shell."""
    start = shlex.join([str(python), str(launcher)])
    return f"{start} > run.log 2>&1; fusiondoc parse run.log"
