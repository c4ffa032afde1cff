"""``fusiondoc repro``: one group of a log as a stand-alone Python file, and that file made smaller; of
torch.compile also the two sides of a boundary, or a kernel."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from fusiondoc.cli.options import SECONDS, captures_option
from fusiondoc.cli.output import notify, output_option, print_result
from fusiondoc.errors import UsageError
from fusiondoc.fusers import at_work

if TYPE_CHECKING:
    from fusiondoc.fusers.inductor.compilation import Compilation
    from fusiondoc.model.report import Report
    from fusiondoc.parsers.lines.log_files import LogInput
    from fusiondoc.repro.write import Groups


@click.command(name="repro")
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option(
    "--group", "-g", "group", metavar="ID", help="The group, such as G3; without it the groups are listed."
)
@click.option(
    "--boundary",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of torch.compile: the two sides of boundary N, as the list has it.",
)
@click.option("--kernel", metavar="NAME", help="Of torch.compile: a generated kernel, by name or ID.")
@output_option("The file to write; repro_ID.py by default.", metavar="FILE.py")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--fuser",
    type=click.Choice(at_work()),
    help="The fuser that the file uses; by default that of the group.",
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
    from fusiondoc.rendering.drawing import rows_of_lines
    from fusiondoc.repro.write import listed, minimised_path, notes, write_minimised, write_script

    if sum(one is not None for one in (group, boundary, kernel)) > 1:
        raise UsageError("--group, --boundary and --kernel name different parts", "Give one of them.")
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
    with _read(logs) as read:
        if isinstance(read, _CompiledLog):
            return _of_compiled(read, group, boundary, kernel, output, force, minimise)
        known = _known_groups(read, group)
        if boundary is not None or kernel is not None:
            raise UsageError(
                "--boundary and --kernel are for runs of torch.compile, and this log has none",
                "Name a group; without it, fusiondoc repro lists them.",
            )
        if group is None:
            print_result(rows_of_lines(listed(known)), nl=False)
            notify("Choose one with --group ID.")
            return 0
        written = write_script(known, group, output, force, fuser)
    for note in notes(written):
        notify(f"note: {note}")
    notify(f"wrote {written.path}; run it: python {written.path}")
    if not minimise:
        return 0
    from fusiondoc.runner.interpreter import find_python

    chosen = find_python(python or sys.executable)
    return write_minimised(written, chosen, force, timeout, tries, notify)


class _ReadLog(NamedTuple):
    """A log of TorchScript."""

    report: Report
    logs: Sequence[LogInput]
    shown: Mapping[str, str]


class _CompiledLog(NamedTuple):
    """A log of torch.compile."""

    report: Report
    compilation: Compilation
    shown: str


@contextmanager
def _read(arguments: tuple[str, ...]) -> Iterator[_ReadLog | _CompiledLog]:
    """What the arguments name. Stdin is kept for as long as it is needed: the log is read twice."""
    from fusiondoc.captures.store import CaptureStore
    from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
    from fusiondoc.workflows.load import logs_behind, with_facts

    with tempfile.TemporaryDirectory(prefix="fusiondoc-repro-") as folder:
        given = list(arguments) or [str(CaptureStore().newest().path)]
        shown = " ".join(arguments).replace("-", "<stdin>") if "-" in arguments else " ".join(arguments)
        kept = Path(folder) / "stdin.log"
        if "-" in given:
            with kept.open("wb") as file:
                file.writelines(read_chunks(LogInput("<stdin>", None)))
            given = [str(kept) if argument == "-" else argument for argument in given]
        report, observed = with_facts(given)
        if observed.compilation is not None and observed.compilation.graphs:
            yield _CompiledLog(report, observed.compilation, shown or Path(given[0]).name)
        else:
            yield _ReadLog(report, logs_behind(report), {str(kept): "<stdin>"})


def _known_groups(read: _ReadLog, wanted: str | None) -> Groups:
    """The groups of the logs, but those of te.ops."""
    from fusiondoc.fusers import frontend_of_group
    from fusiondoc.fusers.te import TE
    from fusiondoc.fusers.torchscript import TORCHSCRIPT
    from fusiondoc.repro.write import groups_of

    report = read.report
    groups = tuple(group for group in report.groups if frontend_of_group(group.kind) is TORCHSCRIPT)
    if report.te is not None and (
        not groups or wanted in {group.id for group in report.groups} - {g.id for g in groups}
    ):
        raise UsageError(
            f"groups of {TE.title}'s operation fuser have no TorchScript graph to write",
            "Put the operators into a file of their own, with the shapes that fusiondoc parse shows, and"
            " run that: fusiondoc diagnose FILE.py:NAME --frontend te",
        )
    return groups_of(groups, read.logs, read.shown)


def _of_compiled(
    read: _CompiledLog,
    group: str | None,
    boundary: int | None,
    kernel: str | None,
    output: Path | None,
    force: bool,
    minimise: bool,
) -> int:
    """The work on a run of torch.compile."""
    from fusiondoc.rendering.drawing import rows_of_lines
    from fusiondoc.repro.compiled import CompiledParts, Wanted

    if minimise:
        raise UsageError(
            "--minimise is for groups of TorchScript",
            "Leave it out; TORCHDYNAMO_REPRO_AFTER=aot makes a small program of what fails in torch.compile.",
        )
    parts = CompiledParts(read.report, read.compilation, read.shown)
    if group is None and boundary is None and kernel is None:
        print_result(rows_of_lines(list(parts.listed())), nl=False)
        notify("Choose one with its option.")
        return 0
    path, lacking = parts.write(Wanted(boundary, kernel, group), output, force)
    for note in lacking:
        notify(f"note: {note}")
    notify(f"wrote {path}; see it compiled: fusiondoc diagnose {path} --fuser inductor --no-run")
    return 0
