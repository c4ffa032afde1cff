"""``fusiondoc kernels``: the generated kernels, and their dumps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc.cli.help import CommandWithShortHelp
from fusiondoc.cli.options import (
    make_request,
    model_name_option,
    names_of,
    peak_option,
    run_options,
    store_for,
)
from fusiondoc.cli.output import (
    complete_files,
    format_option,
    notify,
    output_option,
    text_style,
    write,
)
from fusiondoc.errors import INTERRUPTED, UsageError

if TYPE_CHECKING:
    from fusiondoc.model.report import Kernel, Report
    from fusiondoc.workflows.kernels import Looked

_SORT = (
    "id",
    "name",
    "group",
    "launches",
    "time",
    "bandwidth",
    "peak",
    "registers",
    "spills",
    "smem",
    "occupancy",
)


@click.command(name="kernels", cls=CommandWithShortHelp)
@click.argument(
    "arguments",
    nargs=-1,
    metavar="[TARGET or LOG]...",
    shell_complete=complete_files,
)
@click.option(
    "--kernel",
    "-k",
    "names",
    multiple=True,
    metavar="NAME|ID",
    help="Only this kernel. Can be repeated.",
)
@click.option(
    "--group",
    "-g",
    "groups",
    multiple=True,
    metavar="ID",
    help="Only kernels of this group.",
)
@click.option(
    "--sort",
    type=click.Choice(_SORT),
    metavar="COLUMN",
    default="id",
    show_default=True,
    help="The worst first, by " + ", ".join(_SORT) + ".",
)
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help="Only the first N."
)
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write one file per kernel and dump there, with an index, instead of printing them.",
)
@format_option()
@output_option(
    "Write the result to this file; its ending gives the format.", metavar="FILE"
)
@click.option(
    "--trust-capture",
    is_flag=False,
    flag_value="",
    metavar="CODE",
    help="Run the program that somebody else's capture names; without CODE, show it and its code.",
)
@peak_option
@model_name_option
@run_options
def command(
    arguments: tuple[str, ...],
    names: tuple[str, ...],
    groups: tuple[str, ...],
    sort: str,
    top: int | None,
    save: Path | None,
    format_: str | None,
    output: Path | None,
    peak: float | None,
    trust_capture: str | None,
    **options: Any,
) -> int:
    """List generated kernels; print or save their code and other dumps.

    TARGET is what `fusiondoc diagnose` takes, and is run; LOG is what `fusiondoc parse` takes. Without
    either, the newest capture; a capture that lacks a dump of --dump is run again with it. Options of
    the run need a TARGET.

    \b
    Examples:
      fusiondoc kernels                              of the newest capture
      fusiondoc kernels model.py --dump cuda_kernel  run it, print the CUDA code
      fusiondoc kernels --dump kernel_ir --sort peak --top 3
      fusiondoc kernels train.log --group G2 --save code/
    """
    from fusiondoc.reports.kernel_choice import available, choose
    from fusiondoc.workflows import is_target
    from fusiondoc.workflows.load import with_peak

    dumps = names_of(options["dumps"])
    if arguments and is_target(arguments[0], notify):
        looked = _of_target(arguments, options, dumps)
    else:
        looked = _of_logs(arguments, options, dumps, trust_capture)
    failed = looked.failed if looked.ran else None
    report = looked.report if peak is None else with_peak(looked.report, peak)
    if failed is not None and not report.kernels:
        raise failed
    kernels = choose(report, names, groups, sort, top)
    if save is None:
        _print(report, kernels, dumps, format_, output)
    else:
        _print(report, kernels, (), format_, output)
        _save(report, kernels, dumps or available(kernels), save)
    _remarks(
        report, kernels, [name for name in dumps if name not in looked.lacking]
    )
    if looked.interrupted:
        notify("interrupted")
        return INTERRUPTED
    if failed is not None:
        raise failed
    return 0


def _print(
    report: Report,
    kernels: Sequence[Kernel],
    dumps: Sequence[str],
    format_: str | None,
    output: Path | None,
) -> None:
    """Print the listing, with these dumps of each kernel."""
    if format_ is None:
        if output is not None and output.suffix.lower() == ".json":
            format_ = "json"
        else:
            format_ = "text"
    if format_ == "json":
        from fusiondoc.reports.json_format import render as render_json
        from fusiondoc.reports.kernel_choice import narrowed

        write(render_json(narrowed(report, kernels, dumps)), output)
        return
    from fusiondoc.reports.kernel_text import render as render_text

    write(render_text(report, kernels, dumps, **text_style(output)), output)


def _of_target(
    arguments: Sequence[str], options: dict[str, Any], dumps: tuple[str, ...]
) -> Looked:
    from fusiondoc.runner.launch import terminal_progress
    from fusiondoc.workflows.kernels import of_target

    request = make_request(arguments[0], arguments[1:], {**options, "dumps": dumps})
    return of_target(
        request, store_for(options), notify=notify, progress=terminal_progress
    )


def _of_logs(
    arguments: Sequence[str],
    options: dict[str, Any],
    dumps: tuple[str, ...],
    code: str | None,
) -> Looked:
    from fusiondoc.runner.launch import terminal_progress
    from fusiondoc.workflows.kernels import of_arguments

    if code and re.fullmatch(r"[0-9a-f]{12}", code) is None:
        raise UsageError(
            f"--trust-capture takes a code of 12 digits and letters, which '{code}' is not",
            "Without one, as the last word, it shows the code: fusiondoc kernels CAPTURE --dump NAME"
            " --trust-capture",
        )
    given = _given(click.get_current_context(), {*options} - {"dumps"})
    if given:
        raise UsageError(
            f"--{sorted(given)[0].replace('_', '-')} is for running a TARGET, and none is named",
            "Name the target: fusiondoc kernels TARGET --dump NAME",
        )
    return of_arguments(
        arguments, dumps, code=code, notify=notify, progress=terminal_progress
    )


def _given(context: click.Context, options: set[str]) -> set[str]:
    """The run options given on the command line, as they are written there."""
    from click.core import ParameterSource

    given = set()
    for name in options:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            given.add(name)
    return {{"inputs": "input", "knobs": "knob"}.get(name, name) for name in given}


def _save(
    report: Report, kernels: Sequence[Kernel], shown: Sequence[str], folder: Path
) -> None:
    from fusiondoc.workflows.kernels import save

    if not kernels:
        raise UsageError(
            "there is no kernel to save",
            "Without --kernel, --group and --top all are saved.",
        )
    files = save(report, kernels, shown, folder)
    notify(f"wrote {len(files)} files to {folder}; start with {files[-2]}")


def _remarks(
    report: Report, kernels: Sequence[Kernel], dumps: Sequence[str]
) -> None:
    """Notify the user of dumps that may be missing in the result, with the next
    step."""
    from fusiondoc.fuser_knobs.checks import USUAL
    from fusiondoc.fusers import FUSERS, facts_of, fuser_title, titles
    from fusiondoc.reports.kernel_choice import present

    if not report.kernels:
        if not report.groups:
            text = "no group was formed, so there is no kernel: fusiondoc parse shows why"
        elif (
            report.fuser.effective in FUSERS
            and not facts_of(report.fuser.effective).prints_kernels
        ):
            of_others = titles(
                lambda fuser: fuser.prints_kernels and not fuser.limits.partitions
            )
            name = fuser_title(report.fuser.effective)
            text = f"fusiondoc reads no kernels of {name}; it reads those of {of_others}"
        else:
            named = USUAL.get(report.fuser.effective or "", ("cuda_kernel",))[0]
            text = f"the log names no kernel: --dump {named} makes the fuser print them"
        notify(f"note: {text}")
        return
    lacking = []
    if kernels:
        lacking = [dump for dump in dumps if dump not in present(kernels)]
    if lacking:
        notify(f"note: no kernel shown has {', '.join(lacking)}")
