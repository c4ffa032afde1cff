"""``fusiondoc survey``: many captures, logs and reports at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusiondoc.cli.output import (
    complete_files,
    format_option,
    in_colour,
    notify,
    output_option,
    status_of_reached,
    write,
    write_file,
)
from fusiondoc.errors import UsageError
from fusiondoc.model import count

if TYPE_CHECKING:
    from fusiondoc.model.survey_answers import Survey

_ENDINGS = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".parquet": "parquet",
    ".txt": "text",
}
_TABLES = (
    "runs",
    "groups",
    "gone",
    "reasons",
    "outliers",
    "unreadable",
    "duplicates",
)


@click.command(name="survey")
@click.argument(
    "places",
    nargs=-1,
    required=True,
    metavar="PATH_OR_URL...",
    shell_complete=complete_files,
)
@click.option(
    "--engine",
    type=click.Choice(("local", "dask", "ray")),
    default="local",
    show_default=True,
    help="What reads: processes of this machine, or a Dask or Ray cluster that you have.",
)
@click.option(
    "--address",
    metavar="ADDRESS",
    help="Of that cluster: tcp://HOST:8786 of Dask, HOST:6379 of Ray.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Processes of the local engine; one for each core.",
)
@click.option(
    "--model-from",
    metavar="PATTERN",
    help="Take the model from the path of each run: a regular expression with a group, 'runs/([^/]+)/'.",
)
@click.option(
    "--since",
    metavar="DATE|REV",
    help="Losses and slow kernels of this day and later alone: a date, or the day of a commit.",
)
@click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    type=click.Choice(("gone", "slower", "fallback")),
    help="Exit with status 1 if a group is gone, a kernel is slow in one run, or a group fell back. Can be"
    " repeated.",
)
@click.option(
    "--table",
    type=click.Choice(_TABLES),
    default="runs",
    show_default=True,
    help="What CSV and Parquet hold.",
)
@format_option(("text", "html", "json", "csv", "parquet"))
@output_option("Write to this file; its ending gives the format.")
def command(
    places: tuple[str, ...],
    engine: str,
    address: str | None,
    workers: int | None,
    model_from: str | None,
    since: str | None,
    fail_on: tuple[str, ...],
    table: str,
    format_: str | None,
    output: Path | None,
) -> int:
    """What many runs have in common: which groups exist in which share of them, what is gone since, why
    operators are in no group, and which kernels are slow where.

    PATH_OR_URL is a saved report, a capture, a log, or a folder of them; also an address that fsspec knows
    (s3://bucket/folder). Each of them is a run.

    \b
    Examples:
      fusiondoc survey reports/
      fusiondoc survey s3://bucket/fusion/ -o survey.html
      fusiondoc survey reports/ --table groups -o groups.parquet
      fusiondoc survey reports/ --since v1.2 --fail-on gone --fail-on fallback
      fusiondoc survey reports/ --engine dask --address tcp://10.0.0.1:8786
    """
    format_ = _format(format_, output)
    from fusiondoc.reports import json_format
    from fusiondoc.reports import survey_documents as documents
    from fusiondoc.workflows.survey import survey

    found = survey(
        places,
        engine=engine,
        address=address,
        workers=workers,
        model_from=model_from,
        since=since,
        notify=notify,
    )
    if format_ == "parquet":
        assert output is not None
        write_file(output, documents.as_parquet(found, table), "--output")
    elif format_ == "csv":
        write(documents.as_csv(found, table), output)
    elif format_ == "json":
        write(json_format.as_json(found, indent=1), output)
    elif format_ == "html":
        write(documents.as_page(found), output)
    else:
        width = shutil.get_terminal_size((80, 24)).columns
        write(
            documents.as_text(found, width=width, colour=in_colour(output)), output
        )
    return status_of_reached(
        [sentence for cause in fail_on for sentence in _reached(found, cause)]
    )


def _reached(found: Survey, cause: str) -> Iterator[str]:
    """Yield a line on why ``--fail-on`` with this cause is reached; none if it is
    not."""
    since = f" since {found.since}" if found.since is not None else ""
    if cause == "gone" and found.gone:
        yield f"--fail-on gone: {count(len(found.gone), 'loss')}{since}"
    if cause == "slower" and found.outliers:
        slow = len(found.outliers) + found.outliers_left_out
        yield f"--fail-on slower: {count(slow, 'slow kernel')}{since}"
    if cause == "fallback" and found.fell_back:
        first = found.fell_back[0]
        yield f"--fail-on fallback: {count(len(found.fell_back), 'run')}{since}, first {first.run}"


def _format(format_: str | None, output: Path | None) -> str:
    if output is not None and not output.parent.is_dir():
        raise UsageError(
            f"cannot write {output}: there is no folder {output.parent}",
            "Make the folder, or choose another.",
        )
    if format_ is None and output is not None:
        format_ = _ENDINGS.get(output.suffix.lower())
        if format_ is None:
            raise UsageError(
                f"{output}: no format has the ending {output.suffix or '(none)'}",
                f"Known: {', '.join(_ENDINGS)}; or name one with --format.",
            )
    if format_ == "parquet" and output is None:
        raise UsageError(
            "Parquet is not a text format", "Name a file: --output runs.parquet"
        )
    return format_ or "text"
