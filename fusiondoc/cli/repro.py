"""``fusiondoc repro``: one group of a log as a stand-alone Python file, and that
file made smaller; for torch.compile also the two sides of a boundary, or a
kernel."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusiondoc.cli.options import SECONDS, captures_option
from fusiondoc.cli.output import notify, output_option, print_result
from fusiondoc.errors import UsageError
from fusiondoc.fusers import at_work

if TYPE_CHECKING:
    from fusiondoc.repro.of_fusers import ReadLog
    from fusiondoc.repro.write import Groups, Written

_STDIN = "fusiondoc-stdin.log"


@click.command(name="repro")
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option(
    "--group",
    "-g",
    "group",
    metavar="ID",
    help="The group, such as G3; without it the groups are listed.",
)
@click.option(
    "--boundary",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of torch.compile: the two sides of boundary N, as the list has it.",
)
@click.option(
    "--kernel",
    metavar="NAME",
    help="Of torch.compile: a generated kernel, by name or ID.",
)
@output_option("The file to write; repro_ID.py by default.", metavar="FILE.py")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--fuser",
    type=click.Choice(at_work()),
    help="The fuser that the file uses; by default that of the group.",
)
@click.option(
    "--minimise",
    is_flag=True,
    help="Remove operators while the failure remains; runs many children.",
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
    type=SECONDS,
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
def command(
    logs: tuple[str, ...],
    group: str | None,
    boundary: int | None,
    kernel: str | None,
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
    holds anything else is refused. Of torch.compile the file compiles the operators of a group, a kernel or
    the two sides of a boundary again.

    \b
    Examples:
      fusiondoc repro train.log                   which groups there are
      fusiondoc repro train.log --group G3 --output g3.py
      fusiondoc repro --group G3 --minimise       also the smallest that fails
      fusiondoc repro --boundary 1                of a run of torch.compile
    """
    from fusiondoc.repro.write import notes, write_minimised

    if sum(one is not None for one in (group, boundary, kernel)) > 1:
        raise UsageError(
            "--group, --boundary and --kernel name different parts",
            "Give one of them.",
        )
    if minimise:
        _check_minimise(logs, group, output, force, trust_log)
    with _read(logs) as read:
        if read.is_compiled:
            _of_compiled(read, group, boundary, kernel, output, force, minimise)
            return 0
        written = _of_group(read, group, boundary or kernel, output, force, fuser)
    if written is None:
        return 0
    for note in notes(written):
        notify(f"note: {note}")
    notify(f"wrote {written.path}; run it: python {written.path}")
    if not minimise:
        return 0
    from fusiondoc.runner.interpreter import find_python

    chosen = find_python(python or sys.executable)
    return write_minimised(written, chosen, force, timeout, tries, notify)


def _check_minimise(
    logs: tuple[str, ...],
    group: str | None,
    output: Path | None,
    force: bool,
    trust_log: bool,
) -> None:
    """Raise UsageError if nothing can be made smaller, or if somebody else made the
    log."""
    from fusiondoc.repro.write import minimised_path

    if group is None:
        raise UsageError(
            "--minimise needs a group",
            "Name it with --group; without it the groups are listed.",
        )
    if output is not None and minimised_path(output).exists() and not force:
        raise UsageError(
            f"{minimised_path(output)} already exists",
            "Give --force to overwrite it.",
        )
    if not trust_log:
        from fusiondoc.captures.store import CaptureStore
        from fusiondoc.captures.trust import refuse_foreign

        refuse_foreign(logs, CaptureStore(), "--minimise")


@contextmanager
def _read(arguments: tuple[str, ...]) -> Iterator[ReadLog]:
    """Context manager: the log that the arguments name. Stdin is saved to a file,
    which is deleted afterwards: the log is read twice."""
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
    from fusiondoc.repro.of_fusers import ReadLog
    from fusiondoc.workflows.load import with_facts

    with tempfile.TemporaryDirectory(prefix="fusiondoc-repro-") as folder:
        given = list(arguments) or [str(CaptureStore().newest().path)]
        if "-" in arguments:
            shown = " ".join(arguments).replace("-", "<stdin>")
        else:
            shown = " ".join(arguments)
        kept = Path(folder) / _STDIN
        if "-" in given:
            with kept.open("wb") as file:
                file.writelines(read_chunks(LogInput("<stdin>", None)))
            given = [
                str(kept) if argument == "-" else argument for argument in given
            ]
        report, observed = with_facts(given)
        yield ReadLog(report, observed, shown or Path(given[0]).name)


def _of_group(
    read: ReadLog,
    group: str | None,
    part: object,
    output: Path | None,
    force: bool,
    fuser: str | None,
) -> Written | None:
    """Write a group; None if the groups were listed instead. ``part``: a boundary
    or kernel of torch.compile, if one was named."""
    from fusiondoc.rendering.drawing import rows_of_lines
    from fusiondoc.repro.write import listed, write_script

    known = _known_groups(read, group)
    if part is not None:
        raise UsageError(
            "--boundary and --kernel are for runs of torch.compile, and this log has none",
            "Name a group; without it, fusiondoc repro lists them.",
        )
    if group is None:
        print_result(rows_of_lines(listed(known)), nl=False)
        notify("Choose one with --group ID.")
        return None
    return write_script(known, group, output, force, fuser)


def _known_groups(read: ReadLog, wanted: str | None) -> Groups:
    """The groups of the logs, except those of te.ops."""
    from fusiondoc.fusers import frontend_of_group
    from fusiondoc.fusers.te import TE
    from fusiondoc.fusers.torchscript import TORCHSCRIPT
    from fusiondoc.repro.write import groups_of
    from fusiondoc.workflows.load import logs_behind

    report = read.report
    groups = []
    for group in report.groups:
        if frontend_of_group(group.kind) is TORCHSCRIPT:
            groups.append(group)
    if report.te is not None and (
        not groups
        or wanted in {group.id for group in report.groups} - {g.id for g in groups}
    ):
        raise UsageError(
            f"groups of {TE.title}'s operation fuser have no TorchScript graph to write",
            "Put the operators into a file of their own, with the shapes that fusiondoc parse shows, and"
            " run that: fusiondoc diagnose FILE.py:NAME --frontend te",
        )
    logs = logs_behind(report)
    return groups_of(
        tuple(groups),
        logs,
        {log.name: "<stdin>" for log in logs if log.name.endswith(_STDIN)},
    )


def _of_compiled(
    read: ReadLog,
    group: str | None,
    boundary: int | None,
    kernel: str | None,
    output: Path | None,
    force: bool,
    minimise: bool,
) -> None:
    """Write the script of a part of a run of torch.compile, or list the parts."""
    from fusiondoc.rendering.drawing import rows_of_lines
    from fusiondoc.repro.of_fusers.compiled_parts import CompiledParts, Wanted

    if minimise:
        raise UsageError(
            "--minimise is for groups of TorchScript",
            "Leave it out; TORCHDYNAMO_REPRO_AFTER=aot makes a small program of what fails in torch.compile.",
        )
    assert read.observed.compilation is not None
    parts = CompiledParts(read.report, read.observed.compilation, read.shown)
    if group is None and boundary is None and kernel is None:
        print_result(rows_of_lines(list(parts.listed())), nl=False)
        notify("Choose one with its option.")
        return
    for line in parts.write(Wanted(boundary, kernel, group), output, force):
        notify(line)
