"""``fusiondoc kernels`` and ``repro``: the generated kernels, and what was dumped of them; and one group of a
log as a stand-alone Python file, and that file made smaller.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Sequence

import click

from fusiondoc.cli.options import captures_option, make_request, peak_option, run_options, store_for
from fusiondoc.cli.output import complete_files, format_option, in_colour, output_option, say, tell, write
from fusiondoc.errors import INTERRUPTED, UsageError
from fusiondoc.model import CHOICES

if TYPE_CHECKING:
    from fusiondoc.model.report import Kernel, Report
    from fusiondoc.repro.write import Groups
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


@click.command(name="kernels")
@click.argument("arguments", nargs=-1, metavar="[TARGET or LOG]...", shell_complete=complete_files)
@click.option(
    "--kernel", "-k", "names", multiple=True, metavar="NAME|ID", help="Only this kernel. Can be repeated."
)
@click.option("--group", "-g", "groups", multiple=True, metavar="ID", help="Only kernels of this group.")
@click.option(
    "--sort",
    type=click.Choice(_SORT),
    metavar="COLUMN",
    default="id",
    show_default=True,
    help="The worst first, by " + ", ".join(_SORT) + ".",
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the first N.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write one file per kernel and dump there, with an index, instead of printing them.",
)
@format_option()
@output_option("Write the result to this file; its ending gives the format.", metavar="FILE")
@click.option(
    "--trust-capture",
    is_flag=True,
    help="Run again what a capture asks for, though somebody else made it.",
)
@peak_option
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
    trust_capture: bool,
    **options: Any,
) -> int:
    """List generated kernels, and print or save what was dumped of them.

    TARGET is what `fusiondoc diagnose` takes, and is run; LOG is what `fusiondoc parse` takes. Without
    either, the newest capture; a capture that lacks a dump of --dump is run again with it. All options from
    --fuser on but --dump are for running a TARGET.

    \b
    Examples:
      fusiondoc kernels                              of the newest capture
      fusiondoc kernels model.py --dump cuda_kernel  run it, print the CUDA code
      fusiondoc kernels --dump kernel_ir --sort peak --top 3
      fusiondoc kernels train.log --group G2 --save code/
    """
    from fusiondoc.reports.text.kernel_listing import available, choose, narrowed
    from fusiondoc.workflows import is_target
    from fusiondoc.workflows.load import with_peak

    dumps = tuple(dict.fromkeys(one for text in options["dumps"] for one in text.split(",") if one))
    target = bool(arguments) and is_target(arguments[0], tell)
    looked = (
        _of_target(arguments, options, dumps)
        if target
        else _of_logs(arguments, options, dumps, trust_capture)
    )
    report = looked.report if peak is None else with_peak(looked.report, peak)
    if looked.failed is not None and looked.ran and not report.kernels:
        raise looked.failed
    kernels = choose(report, names, groups, sort, top)
    shown = dumps or (available(kernels) if save is not None else ())
    if format_ is None:
        format_ = "json" if output is not None and output.suffix.lower() == ".json" else "text"
    printed = () if save is not None else shown
    if format_ == "json":
        from fusiondoc.reports.json_format import render as render_json

        write(render_json(narrowed(report, kernels, printed)), output)
    else:
        from fusiondoc.reports.text import can_show_blocks
        from fusiondoc.reports.text.kernel_listing import render as render_text

        width, colour = shutil.get_terminal_size((80, 24)).columns, in_colour(output)
        blocks = output is not None or can_show_blocks(getattr(sys.stdout, "encoding", None))
        write(render_text(report, kernels, printed, width=width, colour=colour, blocks=blocks), output)
    if save is not None:
        _save(report, kernels, shown, save)
    _remarks(report, kernels, [one for one in dumps if one not in looked.lacking])
    if looked.interrupted:
        tell("interrupted")
        return INTERRUPTED
    if looked.failed is not None and looked.ran:
        raise looked.failed
    return 0


def _of_target(arguments: Sequence[str], options: dict[str, Any], dumps: tuple[str, ...]) -> Looked:
    from fusiondoc.runner.launch import terminal_progress
    from fusiondoc.workflows.kernels import of_target

    request = make_request(arguments[0], arguments[1:], {**options, "dumps": dumps})
    return of_target(request, store_for(options), tell=tell, progress=terminal_progress)


def _of_logs(
    arguments: Sequence[str], options: dict[str, Any], dumps: tuple[str, ...], trusted: bool
) -> Looked:
    from fusiondoc.runner.launch import terminal_progress
    from fusiondoc.workflows.kernels import of_arguments

    given = _given(click.get_current_context(), {*options} - {"dumps"})
    if given:
        raise UsageError(
            f"--{sorted(given)[0].replace('_', '-')} is for running a TARGET, and none is named",
            "Name the target: fusiondoc kernels TARGET --dump NAME",
        )
    return of_arguments(arguments, dumps, trusted=trusted, tell=tell, progress=terminal_progress)


def _given(context: click.Context, options: set[str]) -> set[str]:
    """The names of the options of a run that are on the command line, as they are written there."""
    from click.core import ParameterSource

    given = {name for name in options if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}
    return {{"inputs": "input", "knobs": "knob"}.get(name, name) for name in given}


def _save(report: Report, kernels: Sequence[Kernel], shown: Sequence[str], folder: Path) -> None:
    from fusiondoc.workflows.kernels import save

    if not kernels:
        raise UsageError("there is no kernel to save", "Without --kernel, --group and --top all are saved.")
    files = save(report, kernels, shown, folder)
    tell(f"wrote {len(files)} files to {folder}; start with {files[-2]}")


def _remarks(report: Report, kernels: Sequence[Kernel], dumps: Sequence[str]) -> None:
    """What the user may miss in the result, with the next step."""
    from fusiondoc.fuser_knobs.checks import USUAL
    from fusiondoc.reports.text.kernel_listing import present

    if not report.kernels:
        if not report.groups:
            text = "no group was formed, so there is no kernel: fusiondoc parse says why"
        elif report.fuser.effective == "legacy":
            text = "fusiondoc reads no kernels of the legacy fuser; those of --fuser nnc or nvfuser it does"
        else:
            named = USUAL.get(report.fuser.effective or "", ("cuda_kernel",))[0]
            text = f"the log names no kernel: --dump {named} makes the fuser print them"
        tell(f"note: {text}")
        return
    lacking = [one for one in dumps if one not in present(kernels)] if kernels else []
    if lacking:
        tell(f"note: no kernel shown has {', '.join(lacking)}")


@click.command(name="repro")
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option(
    "--group", "-g", "group", metavar="ID", help="The group, such as G3; without it the groups are listed."
)
@output_option("The file to write; repro_ID.py by default.", metavar="FILE.py")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--fuser", type=click.Choice(CHOICES), help="The fuser that the file uses; by default that of the group."
)
@click.option(
    "--minimise", is_flag=True, help="Remove operators while the failure remains; runs many children."
)
@click.option(
    "--trust-log",
    is_flag=True,
    help="Let --minimise run files made from a log that is not a capture of this folder.",
)
@click.option(
    "--python",
    type=click.Path(),
    metavar="PATH",
    help="The interpreter whose torch --minimise uses; by default this one.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop a child of --minimise after this long.",
)
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="Stop --minimise after that many children.",
)
@captures_option
def repro_command(
    logs: tuple[str, ...],
    group: str | None,
    output: Path | None,
    force: bool,
    fuser: str | None,
    minimise: bool,
    trust_log: bool,
    python: str | None,
    timeout: float,
    tries: int,
) -> int:
    """Write one group as a Python file that needs torch alone.

    The file builds the group from its IR with inputs of the same dtype, sizes and strides, runs it unfused
    and fused, compares, and raises the real error where the fuser fails. LOG is what `fusiondoc parse` takes;
    without one, the newest capture. Only operators of fusers and plain constants are written; a log that
    holds anything else is refused.

    \b
    Examples:
      fusiondoc repro train.log                   which groups there are
      fusiondoc repro train.log --group G3 --output g3.py
      fusiondoc repro --group G3 --minimise       also the smallest that fails
    """
    from fusiondoc.reports.text import rows_of_lines
    from fusiondoc.repro.write import listed, minimised_path, notes, write_minimised, write_script

    if minimise and group is None:
        raise UsageError(
            "--minimise needs a group", "Name it with --group; without it the groups are listed."
        )
    if minimise and output is not None and minimised_path(output).exists() and not force:
        raise UsageError(f"{minimised_path(output)} already exists", "Give --force to overwrite it.")
    if minimise and not trust_log:
        from fusiondoc.captures.store import CaptureStore
        from fusiondoc.captures.trust import refuse_foreign

        refuse_foreign(logs, CaptureStore(), "--minimise")
    with _known_groups(logs, group) as known:
        if group is None:
            say(rows_of_lines(listed(known)), nl=False)
            tell("Choose one with --group ID.")
            return 0
        written = write_script(known, group, output, force, fuser)
    for note in notes(written):
        tell(f"note: {note}")
    tell(f"wrote {written.path}; run it: python {written.path}")
    if not minimise:
        return 0
    from fusiondoc.runner.interpreter import find_python

    chosen = find_python(python or sys.executable)
    return write_minimised(written, chosen, force, timeout, tries, tell)


@contextmanager
def _known_groups(arguments: tuple[str, ...], wanted: str | None) -> Iterator[Groups]:
    """The groups of the logs, but those of Transformer Engine. Stdin is kept for as long as it is needed: the
    log is read twice."""
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.model import is_te
    from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
    from fusiondoc.repro.write import groups_of
    from fusiondoc.workflows.load import logs_behind, report_from

    with tempfile.TemporaryDirectory(prefix="fusiondoc-repro-") as folder:
        given = list(arguments) or [str(CaptureStore().newest().path)]
        if "-" in given:
            kept = Path(folder) / "stdin.log"
            with kept.open("wb") as file:
                file.writelines(read_chunks(LogInput("<stdin>", None)))
            given = [str(kept) if argument == "-" else argument for argument in given]
        report = report_from(given)
        groups = tuple(one for one in report.groups if not is_te(one.kind))
        if report.te is not None and (
            not groups or wanted in {one.id for one in report.groups} - {g.id for g in groups}
        ):
            raise UsageError(
                "groups of Transformer Engine's operation fuser have no TorchScript graph to write",
                "Put the operators into a file of their own, with the shapes that fusiondoc parse shows, and"
                " run that: fusiondoc diagnose FILE.py:NAME --frontend te",
            )
        logs = logs_behind(report)
        yield groups_of(groups, logs, {str(Path(folder) / "stdin.log"): "<stdin>"})
