"""How every command prints, and the completions that a shell offers on Tab.

Lines for the user (``print_result``, ``notify``): control sequences in a log's
text, a path or an error have no effect on a terminal or on GitHub. Reports
(``emit``, ``write``), with --format, --output and --fail-on.

``--help`` of every command imports this: modules that only a run, a line or a
completion needs are imported where they are used.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fusiondoc.errors import FINDINGS_FOUND, UsageError, did_you_mean
from fusiondoc.reports import REPORT_FORMATS, render_report

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fusiondoc.model.report import Report


def print_result(text: str, nl: bool = True) -> None:
    """Print results to stdout."""
    click.echo(_safe(text), nl=nl)


def notify(line: str) -> None:
    """Print a line on stderr, beside the results."""
    click.echo(_safe(line), err=True)


def _safe(text: str) -> str:
    from fusiondoc.rendering.printable import in_github_log, visible

    return in_github_log(visible(text))


ENDINGS = {
    ".json": "json",
    ".txt": "text",
    ".log": "text",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".sarif": "sarif",
    ".xml": "junit",
    ".prom": "openmetrics",
}

F = TypeVar("F", bound=Callable[..., Any])


def output_checked(
    ctx: click.Context, param: click.Parameter, value: Path | None
) -> Path | None:
    """Refuse a file that cannot be written, or that has the extension of no format,
    before anything runs."""
    if value is None:
        return None
    if param.name is not None:
        option = f"--{param.name}".replace("_", "-")
    else:
        option = "--output"
    if not value.parent.is_dir():
        raise UsageError(
            f"cannot write {value}: there is no folder {value.parent}",
            f"Choose another file with {option}, or make the folder first.",
        )
    ending = value.suffix.lower()
    if (
        param.name == "output"
        and ending
        and ending not in ENDINGS
        and not ctx.params.get("format_")
    ):
        raise UsageError(
            f"{value}: no format has the ending {ending}",
            f"Known: {', '.join(ENDINGS)}; or name one with --format.",
        )
    return value


def format_option(
    formats: Sequence[str] = ("text", "json"), about: str = "Default: text."
) -> Callable[[F], F]:
    """``--format``, as the argument ``format_``: one of ``formats``, or None."""
    kinds = click.Choice(formats)
    return click.option(
        "--format", "-f", "format_", type=kinds, is_eager=True, help=about
    )


def output_option(about: str, *names: str, **more: Any) -> Callable[[F], F]:
    """``--output FILE``, as the argument ``output``, or as the one given in
    ``names``; ``more`` is passed to click."""
    file = click.Path(dir_okay=False, path_type=Path)
    return click.option("--output", "-o", *names, type=file, help=about, **more)


_DETAIL = "fusiondoc.detail"


def _keep_detail(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_DETAIL] = param.name


def detail() -> Any:
    """The requested length: --quiet overrides --summary, which overrides
    --verbose."""
    from fusiondoc.rendering.drawing import Detail

    ctx = click.get_current_context(silent=True)
    requested = ctx.meta.get(_DETAIL) if ctx is not None else None
    return {
        "quiet": Detail.VERDICT,
        "summary": Detail.SUMMARY,
        "verbose": Detail.ALL,
    }.get(str(requested), Detail.USUAL)


def detail_options(command: F) -> F:
    """Add --summary, --quiet and --verbose."""
    for option in (
        click.option(
            "--verbose",
            "-v",
            is_flag=True,
            expose_value=False,
            callback=_keep_detail,
            help="Print every row and every finding.",
        ),
        click.option(
            "--quiet",
            "-q",
            is_flag=True,
            expose_value=False,
            callback=_keep_detail,
            help="Print the verdict alone, and what to do first.",
        ),
        click.option(
            "--summary",
            is_flag=True,
            expose_value=False,
            callback=_keep_detail,
            help="Print the first screen alone.",
        ),
    ):
        command = option(command)
    return command


def report_options(command: F) -> F:
    """Add --format, --output, --fail-on, and the options for the length of the
    text."""
    command = detail_options(command)
    for option in (
        click.option(
            "--fail-on",
            "fail_on",
            multiple=True,
            metavar="SEVERITY|CODE",
            shell_complete=complete_severities_and_codes,
            help="Exit with status 1 if there is a finding of this severity (or worse) or code.",
        ),
        output_option(
            "Write the report to this file; its ending gives the format.",
            callback=output_checked,
        ),
        format_option(REPORT_FORMATS),
    ):
        command = option(command)
    return command


def check_fail_on(values: tuple[str, ...]) -> None:
    """Refuse an unknown severity or code before anything runs."""
    if not values:
        return
    from fusiondoc.model.codes import CODES
    from fusiondoc.model.report import SEVERITIES

    for value in values:
        if value not in SEVERITIES and value.upper() not in CODES:
            raise UsageError(
                f"unknown severity or code '{value}' for --fail-on",
                did_you_mean(value, (*SEVERITIES, *CODES)),
            )


def format_of(
    format_: str | None, output: Path | None, endings: Mapping[str, str] = ENDINGS
) -> str:
    """The requested format, else the format of the file's extension, else text."""
    if format_ is not None:
        return format_
    if output is None:
        return "text"
    return endings.get(output.suffix.lower(), "text")


def emit(
    report: Report,
    format_: str | None,
    output: Path | None,
    text_of: Callable[..., str] | None = None,
) -> None:
    """Write the report in the requested format to the requested file; ``text_of``
    replaces the usual text. In GitHub Actions the findings are also printed as
    annotations, on stderr, so that stdout has one format only.
    """
    format_ = format_of(format_, output)
    if format_ == "json":
        from fusiondoc.reports.json_format import render_in_parts

        write_parts(render_in_parts(report), output)
        _annotate_report(report, format_, output)
        return
    if format_ != "text":
        text = render_report(report, format_)
    else:
        from fusiondoc.rendering.drawing import can_link

        make: Callable[..., str] = (
            text_of
            or importlib.import_module("fusiondoc.reports.text.screen").render
        )
        links = in_colour(output) and can_link(os.environ)
        text = make(report, **text_style(output), detail=detail(), links=links)
    if output is None and format_ in ("junit", "markdown", "html"):
        from fusiondoc.rendering.printable import in_github_log

        text = in_github_log(text)
    write(text, output)
    _annotate_report(report, format_, output)


def in_github() -> bool:
    """True in a step of GitHub Actions, whose log shows annotations."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotate_github(annotations: str, summary: str) -> None:
    """Print annotations on stderr, and write the summary of a step of GitHub
    Actions."""
    from fusiondoc.reports.code_annotations import append_github_summary

    click.echo(annotations, err=True, nl=False)
    append_github_summary(summary, os.environ.get("GITHUB_STEP_SUMMARY"))


def _annotate_report(report: Report, format_: str, output: Path | None) -> None:
    """Print the annotations and write the summary of a report, in GitHub
    Actions."""
    if in_github() and (format_ != "github" or output is not None):
        from fusiondoc.reports.code_annotations import github, github_summary

        annotate_github(github(report), github_summary(report))


def in_colour(output: Path | None) -> bool:
    """True if the text goes to a terminal that supports colours."""
    terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    return (
        terminal
        and "NO_COLOR" not in os.environ
        and os.environ.get("TERM") != "dumb"
    )


def text_style(output: Path | None) -> dict[str, Any]:
    """Return the width of a text for ``output``, whether to use colours, and
    whether block characters can be shown."""
    import shutil

    from fusiondoc.rendering.drawing import can_show_blocks

    return {
        "width": shutil.get_terminal_size((80, 24)).columns,
        "colour": in_colour(output),
        "blocks": output is not None
        or can_show_blocks(getattr(sys.stdout, "encoding", None)),
    }


def write(text: str, output: Path | None) -> None:
    """Print the text, or write it to the file that --output names."""
    if output is None:
        click.echo(text, nl=False)
        return
    write_file(output, text.encode("utf-8", "backslashreplace"), "--output")


def write_parts(parts: Iterable[str], output: Path | None) -> None:
    """Print or write a text given in parts."""
    if output is None:
        for part in joined(parts):
            click.echo(part, nl=False)
        return
    write_file(
        output,
        (part.encode("utf-8", "backslashreplace") for part in joined(parts)),
        "--output",
    )


_ENOUGH = 1 << 18
"""Characters that make a write worthwhile: the text of one kernel alone can be a
quarter of a megabyte."""


def joined(parts: Iterable[str]) -> Iterator[str]:
    """Join the parts to fewer and larger ones."""
    some: list[str] = []
    size = 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size >= _ENOUGH:
            yield "".join(some)
            some, size = [], 0
    if some:
        yield "".join(some)


def write_file(file: Path, data: bytes | Iterable[bytes], option: str) -> None:
    """Write the file that ``option`` names, whole or not at all.

    Raises:
        UsageError: it cannot be written.
    """
    from fusiondoc.whole_files import whole_file

    try:
        with whole_file(file) as out:
            for part in (data,) if isinstance(data, bytes) else data:
                out.write(part)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}",
            f"Choose another file with {option}.",
        ) from None
    notify(f"wrote {file}")


def status_of_reached(reached: Sequence[str]) -> int:
    """Return the exit status of a command, and print a note for each cause of
    ``--fail-on`` that is reached."""
    for sentence in reached:
        notify(sentence)
    if reached:
        return FINDINGS_FOUND
    return 0


def exit_status(report: Report, fail_on: tuple[str, ...]) -> int:
    """Return 1 if a finding has a severity of at least, or the code, that --fail-on
    names; else 0."""
    from fusiondoc.model.report import SEVERITIES

    for value in fail_on:
        if value in SEVERITIES:
            worse = SEVERITIES[: SEVERITIES.index(value) + 1]
            if any(finding.severity in worse for finding in report.findings):
                return FINDINGS_FOUND
        elif any(finding.code == value.upper() for finding in report.findings):
            return FINDINGS_FOUND
    return 0


def complete_files(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Leave the completion of file names to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


def complete_codes(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Complete finding codes, with their titles if the shell shows help."""
    from click.shell_completion import CompletionItem

    from fusiondoc.model.codes import CODES

    known = CODES.values()
    items = []
    for entry in known:
        if entry.code.startswith(typed.upper()):
            items.append(CompletionItem(entry.code, help=entry.title))
    return items


def complete_severities_and_codes(
    ctx: click.Context, param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Complete the words of --fail-on."""
    from fusiondoc.model.report import SEVERITIES

    return [*_that_fit(SEVERITIES, typed), *complete_codes(ctx, param, typed)]


def complete_knobs(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Complete knobs and environment variables."""
    from fusiondoc.fuser_knobs.catalogue import knobs, variables

    return _that_fit(
        [
            *(entry.name for entry in knobs()),
            *(entry.name for entry in variables()),
        ],
        typed,
    )


def complete_knob_settings(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Complete ``NAME=`` of each knob."""
    from fusiondoc.fuser_knobs.catalogue import knobs

    return _that_fit([f"{knob.name}=" for knob in knobs()], typed)


def complete_dump_options(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Complete dumps of every fuser, after the last comma."""
    from fusiondoc.fuser_knobs.catalogue import dump_options, fuser_dumps

    before, comma, _ = typed.rpartition(",")
    names = [*dump_options(), *(dump.name for dump in fuser_dumps())]
    return _that_fit([before + comma + name for name in names], typed)


def complete_captures(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Complete the captures of the current folder, newest first."""
    from fusiondoc.captures.store import CaptureStore

    return _that_fit([path.name for path in CaptureStore().paths()], typed)


def _that_fit(names: Iterable[str], typed: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    items = []
    for name in names:
        if name.startswith(typed) and name.isprintable():
            items.append(CompletionItem(name))
    return items
