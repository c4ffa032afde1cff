"""``fusiondoc check``: compare a run or a log with a file of expected fusion
groups."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusiondoc.cli.check_all import (
    check_all,
    check_file,
    chosen_sections,
    folder_of_results,
)
from fusiondoc.cli.help import CommandWithShortHelp
from fusiondoc.cli.options import (
    make_request,
    model_name_option,
    peak_option,
    run_options,
    store_for,
)
from fusiondoc.cli.output import (
    check_fail_on,
    complete_files,
    emit,
    exit_status,
    in_github,
    notify,
    print_result,
    report_options,
)
from fusiondoc.errors import (
    FINDINGS_FOUND,
    INTERRUPTED,
    NotFound,
    UsageError,
    did_you_mean,
)

if TYPE_CHECKING:
    from fusiondoc.errors import FusiondocError
    from fusiondoc.expectations import Expectations, ExpectationSection
    from fusiondoc.model.report import Report
    from fusiondoc.workflows.run import Finished


@click.command(name="check", cls=CommandWithShortHelp)
@click.argument(
    "targets",
    nargs=-1,
    metavar="[TARGET | LOG...] [-- ARGS...]",
    shell_complete=complete_files,
)
@click.option(
    "--expect",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The YAML file.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Update the file to what is found; show the changes.",
)
@click.option(
    "--section",
    "only",
    multiple=True,
    metavar="NAME",
    help="Check this section whatever run it is for. Can be repeated.",
)
@click.option(
    "--only",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Without TARGET: check the sections with such a name; * is any text. Can be repeated.",
)
@click.option(
    "--changed-since",
    metavar="REV",
    help="Without TARGET: run only models of which a file or import in the repository changed since.",
)
@click.option(
    "--file-only",
    is_flag=True,
    help="Without TARGET: check what needs no run: the file, its targets and patterns; and that no capture is"
    " committed.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    metavar="N",
    help="Without TARGET: run N models at a time; by default one for each core.",
)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Without TARGET: where results of unchanged models are kept; by default in the folder of captures.",
)
@click.option(
    "--no-cache",
    is_flag=True,
    help="Without TARGET: run every model, and keep no result for the next check.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.jsonl",
    help="Add a line for each run to this file, for fusiondoc history.",
)
@model_name_option
@run_options
@click.option(
    "--no-rerun",
    is_flag=True,
    help="Do not run again to see why groups fell back, or whose error it is.",
)
@peak_option
@report_options
def command(
    targets: tuple[str, ...],
    expect: Path | None,
    update: bool,
    only: tuple[str, ...],
    patterns: tuple[str, ...],
    changed_since: str | None,
    file_only: bool,
    jobs: int | None,
    cache: Path | None,
    no_cache: bool,
    history: Path | None,
    no_rerun: bool,
    peak: float | None,
    format_: str | None,
    output: Path | None,
    fail_on: tuple[str, ...],
    **options: Any,
) -> int:
    """Exit with status 1 unless the expected fusion groups exist.

    TARGET (FILE.py, FILE.py:NAME, package.module:NAME, FILE.pt) is run as diagnose does; anything else is a
    log, a capture or - for stdin. Without an argument every section of the file is checked, each with a run
    of its own, side by side; where no section names a target, the newest capture is read. The keys of the
    file are described in docs/commands/check.md.

    \b
    Examples:
      fusiondoc check model.py --expect fusions.yaml --update
      fusiondoc check model.py --expect fusions.yaml
      fusiondoc check --expect fusions.yaml -j 4
      fusiondoc check train.log --expect fusions.yaml --format junit -o check.xml
    """
    check_fail_on(fail_on)
    expect = _named_file(expect)
    expectations = _expectations(expect, update)
    _known_sections(expectations, only)
    choices = {
        "--file-only": file_only,
        "--only": patterns,
        "--jobs": jobs,
        "--changed-since": changed_since,
    }
    if _is_for_all(targets, expectations, update, choices):
        assert expectations is not None
        _refuse_options_of_a_run(options)
        sections = chosen_sections(expectations, only, patterns)
        if file_only:
            return check_file(expectations, sections)
        return check_all(
            expectations,
            sections,
            python=options["python"],
            workers=jobs,
            cache=folder_of_results(cache, no_cache),
            changed_since=changed_since,
            format_=format_,
            output=output,
            history=history,
        )
    from fusiondoc.cli.config import without_suppressed
    from fusiondoc.workflows import is_target

    of_capture: FusiondocError | None = None
    if targets and is_target(targets[0], notify):
        need_profile = expectations is not None and expectations.need_profile
        done = _run(
            targets, options, rerun=not no_rerun, profile=need_profile, peak=peak
        )
        if done.interrupted:
            notify("interrupted; nothing was checked")
            return INTERRUPTED
        report = without_suppressed(done.report)
        _raise_failure(done.failed, report, format_, output)
    else:
        report, of_capture = _report_of_logs(targets, _given(options), peak)
        if update and of_capture is not None:
            raise of_capture
        report = without_suppressed(report)
    if update:
        _refuse_failed_run(expect, report)
        update_file(
            expect,
            report,
            only,
            diff_to_stdout=(format_ or "text") == "text" and output is None,
        )
        expectations = _expectations(expect, False)
    assert expectations is not None  # without a file --update has made one
    report = _checked(report, expectations, only)
    _show(report, update, format_, output)
    _keep_line(history, report, only)
    if of_capture is not None:
        raise of_capture  # it ended early, before some groups
    if any(not expectation.holds for expectation in report.expectations):
        return FINDINGS_FOUND
    return exit_status(report, fail_on)


def _keep_line(history: Path | None, report: Report, only: tuple[str, ...]) -> None:
    """Add the line of a run to the file of ``--history``; for a named section,
    under its name."""
    if history is None:
        return
    from fusiondoc.workflows.lines_of_runs import append_lines, line_of

    name = only[0] if only else report.target.model or report.target.name or "-"
    append_lines(history, [line_of(report, name)])


def _is_for_all(
    targets: Sequence[str],
    expectations: Expectations | None,
    update: bool,
    choices: Mapping[str, Any],
) -> bool:
    """True if the sections of the file name the models to run.

    Args:
        choices: the options that choose among sections, with their values.

    Raises: UsageError: options that choose among sections, but the sections are not
        all run.
    """
    named = expectations is not None and any(
        section.run.target is not None or section.when.target
        for section in expectations.sections
    )
    if not targets and not update and (named or choices["--file-only"]):
        return True
    option = next((option for option, value in choices.items() if value), None)
    if option is not None:
        raise UsageError(
            f"{option} is for a check of all sections, without a TARGET and without --update",
            "A section names its model with run: {target: FILE.py}.",
        )
    return False


def _refuse_options_of_a_run(options: dict[str, Any]) -> None:
    """Raise UsageError for an option that each section sets for itself."""
    given = [name for name in _given(options) if name not in ("--python",)]
    if given:
        raise UsageError(
            f"{given[0]} is of one run, and without a TARGET every section of the file is run",
            "Write it into the section: run: {target: FILE.py, ...}; or name a TARGET.",
        )


def _run(
    targets: Sequence[str],
    options: dict[str, Any],
    rerun: bool,
    profile: bool,
    peak: float | None,
) -> Finished:
    """Run a target, with the arguments of its script; return the run and its
    report."""
    # Imported here, as they take longer than the modules that read a log.
    from fusiondoc.runner.launch import terminal_progress
    from fusiondoc.workflows.run import FollowUps, diagnose_target

    return diagnose_target(
        make_request(targets[0], targets[1:], options),
        store_for(options),
        follow_ups=FollowUps(rerun=rerun, profile=profile),
        peak=peak,
        notify=notify,
        progress=terminal_progress,
    )


def _raise_failure(
    failed: FusiondocError | None,
    report: Report,
    format_: str | None,
    output: Path | None,
) -> None:
    """Raise the error of a run; first print its report if a format or file is
    requested."""
    if failed is None:
        return
    if format_ is not None or output is not None:
        emit(report, format_, output)
    raise failed


def _show(
    report: Report, update: bool, format_: str | None, output: Path | None
) -> None:
    """Print the checked report; after --update only if a format or file is
    requested."""
    from fusiondoc.reports.text.expectations import (
        broken_expectations,
        expectation_text,
    )

    if not update or format_ is not None or output is not None:
        emit(report, format_, output, expectation_text)
    if (update or output is not None) and not in_github():
        for line in broken_expectations(
            report
        ):  # so that the log of a CI job shows why it failed
            notify(line)


def _report_of_logs(
    arguments: Sequence[str], given: Sequence[str], peak: float | None
) -> tuple[Report, FusiondocError | None]:
    """The report of logs, a capture, or the newest capture, and the error that
    ended its run; ``given`` are run options, which are refused here."""
    from fusiondoc.workflows.load import failure_of_run, log_from

    if given:
        if arguments:
            what = f"'{arguments[0]}' is a log"
        else:
            what = "without a TARGET the newest capture is read"
        raise UsageError(
            f"{given[0]} is for running a model, but {what}",
            "A TARGET is FILE.py, FILE.py:NAME, package.module:NAME or FILE.pt.",
        )
    try:
        failed = failure_of_run(arguments)
        return log_from(arguments, peak), failed
    except NotFound as error:
        message = f"{error.message}, nor a target (FILE.py, FILE.py:NAME, package.module:NAME, FILE.pt)"
        raise NotFound(message, error.hint) from None


def _given(options: dict[str, Any]) -> list[str]:
    """The run options given on the command line."""
    ctx = click.get_current_context()
    names = {param.name: param.opts[0] for param in ctx.command.params}
    from_user = []
    for name in options:
        if _source(ctx, name) == "COMMANDLINE":
            from_user.append(name)
    return [names[name] for name in from_user]


def _source(ctx: click.Context, name: str) -> str | None:
    source = ctx.get_parameter_source(name)
    if source is None:
        return None
    return source.name


def _named_file(expect: Path | None) -> Path:
    """The file of --expect; UsageError if it is missing."""
    if expect is None:
        raise UsageError(
            "check needs --expect FILE.yaml",
            "fusiondoc check TARGET --expect fusions.yaml --update writes it; or set it in pyproject.toml.",
        )
    return expect


def _expectations(file: Path, update: bool) -> Expectations | None:
    """Read the file before anything runs; None if --update will create it."""
    from fusiondoc.expectations.read_file import load, read_text
    from fusiondoc.expectations.update import refuse_what_cannot_be_edited
    from fusiondoc.model.codes import CODES

    if update and (not file.exists() or not read_text(file).strip()):
        return None
    expectations = load(file, CODES)
    if update:
        refuse_what_cannot_be_edited(read_text(file), str(file))
    return expectations


def _refuse_failed_run(file: Path, report: Report) -> None:
    """Refuse --update after a failed fused run: its groups must not become
    expectations."""
    from fusiondoc.expectations.gate import FUSER_FAILED

    if any(finding.code == FUSER_FAILED for finding in report.findings):
        raise UsageError(
            f"--update: only the fused run fails ({FUSER_FAILED}), so {file} stays as it is",
            f"fusiondoc parse {report.target.capture or ''} shows the group and the settings that avoid it.",
        )


def _known_sections(
    expectations: Expectations | None, only: tuple[str, ...]
) -> None:
    """Refuse a section that the file does not have; for a file that --update will
    create, refuse none."""
    if expectations is None:
        return
    names = [section.name for section in expectations.sections]
    for name in only:
        if name not in names:
            if any(names):
                hint = did_you_mean(name, filter(None, names))
            else:
                hint = "Its sections have no names."
            raise UsageError(f"{expectations.file} has no section '{name}'", hint)


def _checked(
    report: Report, expectations: Expectations, only: tuple[str, ...]
) -> Report:
    """Return the report with the outcome of each expectation of the sections that
    apply to it."""
    from datetime import datetime, timezone

    from fusiondoc.expectations.policy import gate_with_policy, notes_on_exceptions

    today = datetime.now(timezone.utc).date()
    for note in notes_on_exceptions(expectations, today):
        notify(f"note: {note}")
    sections = _sections(report, expectations, only)
    rows = []
    for section in sections:
        rows += gate_with_policy(section, expectations, report, today)
    return replace(report, expectations=tuple(rows))


def _sections(
    report: Report, expectations: Expectations, only: tuple[str, ...]
) -> list[ExpectationSection]:
    from fusiondoc.expectations.applies import why_not
    from fusiondoc.expectations.renamed_target import sections_for

    if only:
        chosen = []
        for section in expectations.sections:
            if section.name in only:
                chosen.append(section)
        return chosen
    sections = sections_for(expectations, report)
    if sections:
        return sections
    reasons = []
    for s in expectations.sections[:5]:
        reasons.append(f"{s.name or 'the file'}: {why_not(s.when, report)}")
    raise UsageError(
        f"no section of {expectations.file} is for this run\n  "
        + "\n  ".join(reasons),
        "--update adds one, --section NAME checks one regardless.",
    )


_BOM = b"\xef\xbb\xbf"


def update_file(
    file: Path, report: Report, only: Sequence[str], diff_to_stdout: bool
) -> None:
    """Update the file to match the report; the difference goes to stdout, or to
    stderr beside a report."""
    from fusiondoc.expectations.read_file import read_text
    from fusiondoc.expectations.update import refuse_to_drop_backward, updated
    from fusiondoc.whole_files import alone, read_within, write_whole

    with alone(file):
        before = read_text(file) if file.exists() else ""
        if before.strip():
            refuse_to_drop_backward(before, str(file), report, only)
        after = updated(before, str(file), report, only)
        if after == before:
            notify(f"{file} is up to date")
            return
        mark = _BOM if file.exists() and read_within(file).startswith(_BOM) else b""
        try:
            write_whole(file, mark + after.encode("utf-8"))
        except OSError as error:
            raise UsageError(
                f"cannot write {file}: {error.strerror}",
                "Choose another file with --expect.",
            ) from None
    difference = difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        f"{file} (before)",
        f"{file} (now)",
        lineterm="",
    )
    for line in difference:
        (print_result if diff_to_stdout else notify)(line)
    notify(f"wrote {file}")
