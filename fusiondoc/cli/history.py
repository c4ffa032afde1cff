"""``fusiondoc history``: changes of groups, coverage and times of models over
commits and runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusiondoc.cli.output import (
    complete_files,
    format_of,
    format_option,
    notify,
    output_checked,
    output_option,
    status_of_reached,
    text_style,
    write,
)
from fusiondoc.errors import UsageError
from fusiondoc.model import count

if TYPE_CHECKING:
    from fusiondoc.model.history_answers import History

_FORMATS = ("text", "markdown", "html", "json")


@click.command(name="history")
@click.argument("model", required=False, metavar="[MODEL]")
@click.argument("check_arguments", nargs=-1, metavar="[-- CHECK OPTIONS...]")
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="PATH|branch:NAME",
    shell_complete=complete_files,
    help="A history (.jsonl), a branch that holds history.jsonl, reports, or a folder of them. Can be"
    " repeated; by default history.jsonl.",
)
@click.option(
    "--base",
    multiple=True,
    metavar="PATH|branch:NAME",
    shell_complete=complete_files,
    help="Runs before those of --from: losses and moves of --from alone are reported. Can be repeated.",
)
@click.option(
    "--since",
    metavar="DATE|REV",
    help="Losses and moves of this day and later: a date, or a commit's day.",
)
@click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    type=click.Choice(("lost", "coverage", "slower")),
    help="Exit with status 1 if a group is lost and not back, coverage fell, or the step time rose. Can be"
    " repeated.",
)
@click.option(
    "--bisect",
    is_flag=True,
    help="Find the commit of the last loss, or of the first broken run: git bisect in a worktree of its own,"
    " with fusiondoc check and the options behind --.",
)
@format_option(_FORMATS)
@output_option(
    "Write to this file; its ending gives the format.", callback=output_checked
)
def command(
    model: str | None,
    check_arguments: tuple[str, ...],
    sources: tuple[str, ...],
    base: tuple[str, ...],
    since: str | None,
    fail_on: tuple[str, ...],
    bisect: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """How the fusion groups, coverage and step times of models moved over commits and runs: when was a group
    lost, by which commit.

    MODEL is a name, the end of its path, or a pattern such as '*resnet*'. Runs are lines that
    check --history adds to a file, or saved reports.

    \b
    Examples:
      fusiondoc history
      fusiondoc history resnet --from branch:fusion-history -o resnet.html
      fusiondoc history --from run.jsonl --base branch:fusions -o comment.md
      fusiondoc history resnet --bisect -- resnet.py --expect fusions.yaml
    """
    if check_arguments and not bisect:
        raise UsageError(
            f"'{check_arguments[0]}': options of check go with --bisect",
            "fusiondoc history MODEL --bisect -- TARGET --expect fusions.yaml",
        )
    from fusiondoc.workflows.history import history

    found = history(
        sources or ("history.jsonl",), model=model, base=base, since=since
    )
    if bisect:
        from fusiondoc.workflows.history_bisect import bisected

        commit = bisected(found, check_arguments, notify)
        write(commit.text, output)
        return 0
    _write(found, format_, output)
    return status_of_reached(
        [sentence for cause in fail_on for sentence in _reached(found, cause)]
    )


def _write(found: History, format_: str | None, output: Path | None) -> None:
    from fusiondoc.reports import history_documents as documents
    from fusiondoc.reports import json_format

    format_ = format_of(format_, output)
    if format_ not in _FORMATS:
        raise UsageError(
            f"history has no format {format_}", f"Known: {', '.join(_FORMATS)}."
        )
    if format_ == "json":
        write(json_format.as_json(found, indent=1), output)
    elif format_ == "html":
        write(documents.as_page(found), output)
    elif format_ == "markdown":
        write(documents.as_markdown(found), output)
    else:
        write(documents.as_text(found, **text_style(output)), output)


def _reached(found: History, cause: str) -> Iterator[str]:
    """Yield a line on why ``--fail-on`` with this cause is reached; none if it is
    not."""
    if cause == "lost" and found.still_lost:
        yield f"--fail-on lost: {count(len(found.still_lost), 'loss')}"
    worse = []
    for model in found.models:
        for move in model.moves:
            if move.is_worse:
                worse.append(move)
    fallen = sum(move.what == "coverage" for move in worse)
    slower = len(worse) - fallen
    if cause == "coverage" and fallen:
        yield f"--fail-on coverage: {count(fallen, 'fall')} of coverage"
    if cause == "slower" and slower:
        yield f"--fail-on slower: {count(slower, 'rise')} of step time"
