"""``fusiondoc compare``: the changes between two captures, logs or saved
reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from fusiondoc.cli.options import (
    captures_option,
)
from fusiondoc.cli.output import (
    complete_captures,
    complete_files,
    complete_severities_and_codes,
    detail,
    detail_options,
    format_of,
    format_option,
    notify,
    output_checked,
    output_option,
    text_style,
    write,
)
from fusiondoc.errors import FINDINGS_FOUND, UsageError, nearest
from fusiondoc.model.report import SEVERITIES
from fusiondoc.numbers import figure
from fusiondoc.reports import COMPARISON_FORMATS

ENDINGS = {
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
}


def _sides(
    ctx: click.Context, param: click.Parameter, typed: str
) -> list[CompletionItem]:
    return [
        *complete_captures(ctx, param, typed),
        *complete_files(ctx, param, typed),
    ]


def _words(
    ctx: click.Context, param: click.Parameter, typed: str
) -> list[CompletionItem]:
    from fusiondoc.comparison import WORDS

    known = []
    for word, (what, _) in WORDS.items():
        if word.startswith(typed):
            known.append(CompletionItem(word, help=what))
    return [*known, *complete_severities_and_codes(ctx, param, typed)]


@click.command(name="compare")
@click.argument("a", required=False, shell_complete=_sides)
@click.argument("b", required=False, shell_complete=_sides)
@click.option(
    "--slower-than",
    default="10%",
    metavar="PERCENT",
    show_default=True,
    help="Call a median time slower or faster from this difference.",
)
@format_option(COMPARISON_FORMATS)
@output_option(
    "Write to this file; its ending gives the format.", callback=output_checked
)
@click.option(
    "--fail-on",
    multiple=True,
    metavar="WORD",
    shell_complete=_words,
    help="Exit with status 1 on this change. Can be repeated.",
)
@detail_options
@captures_option
def command(
    a: str | None,
    b: str | None,
    slower_than: str,
    format_: str | None,
    output: Path | None,
    fail_on: tuple[str, ...],
) -> int:
    """What changed from A to B: groups, reasons, kernels, speed.

    A and B are logs, folders of logs, captures (a folder, or a name as fusiondoc captures lists it), saved
    JSON reports, - for a log on stdin, or results of fusiondoc bench, of a target or of a suite. Groups are
    matched by their operators and source lines, never by name or order. Without B the newest capture is B;
    without both, A and B are the two newest captures of one target.

    \b
    Words for --fail-on:
      group-gone, group-added, split, merged, operators, types
      unfused, reason, fallback, coverage
      slower, code, registers, kernel
      environment, any
      error, warning, note or a code such as FD201: a finding that came

    \b
    Examples:
      fusiondoc compare before.log after.log
      fusiondoc compare                      the two newest captures of one target
      fusiondoc compare latest~1 latest
      fusiondoc compare baseline.json new.log --fail-on split --fail-on slower
      fusiondoc compare bench-before.json bench-after.json --fail-on slower
      fusiondoc compare 20260102-030405-model 20260102-040506-model
    """
    _check_words(fail_on)
    threshold = _share(slower_than)
    a, b = _both(a, b)
    if a == b == "-":
        raise UsageError(
            "A and B cannot both be stdin", "Save one of the logs to a file."
        )
    from fusiondoc.comparison import reached
    from fusiondoc.comparison.compare_reports import compare
    from fusiondoc.workflows import two_benches
    from fusiondoc.workflows.load import side

    benches = two_benches(a, b)
    if benches is not None:
        given = click.get_current_context().get_parameter_source("slower_than")
        least = threshold if given is not ParameterSource.DEFAULT else 0.0
        return _compare_benches(
            benches[0], benches[1], (a, b), least, format_, output, fail_on
        )
    comparison = compare(side(a), side(b), threshold)
    _emit(comparison, format_, output)
    hits = [word for word in fail_on if reached(comparison, word)]
    if hits:
        notify(f"failed on: {', '.join(dict.fromkeys(hits))}")
    if hits:
        return FINDINGS_FOUND
    return 0


def _both(a: str | None, b: str | None) -> tuple[str, str]:
    """The two reports to compare if the user did not name both; notifies the user
    of the choice."""
    if a is not None and b is not None:
        return a, b
    from fusiondoc.captures.store import CaptureStore

    store = CaptureStore()
    if a is None:
        old, new = store.two_newest()
        notify(
            f"A is {old.name}, B is {new.name}: the two newest captures of {new.request.target.text}"
        )
        return old.name, new.name
    newest = store.newest()
    notify(f"B is {newest.name}, the newest capture")
    return a, newest.name


def _compare_benches(
    a: Any,
    b: Any,
    names: tuple[str, str],
    least: float,
    format_: str | None,
    output: Path | None,
    fail_on: tuple[str, ...],
) -> int:
    """Compare two results of ``fusiondoc bench``, or of its suites."""
    from fusiondoc.comparison.bench_changes import (
        SLOWER,
        compare_benches,
        compare_suites,
    )
    from fusiondoc.model.bench import Suite
    from fusiondoc.reports import bench_documents as documents
    from fusiondoc.reports import json_format

    format_ = format_of(format_, output, ENDINGS)
    if format_ not in documents.FORMATS_OF_TWO:
        raise UsageError(
            f"two benches cannot be compared as {format_}",
            f"Formats: {', '.join(documents.FORMATS_OF_TWO)}.",
        )
    for word in fail_on:
        if word not in (SLOWER, "any", "environment"):
            raise UsageError(
                f"--fail-on {word} does not apply to two benches",
                "For them: slower, environment, any.",
            )
    found = (compare_suites if isinstance(a, Suite) else compare_benches)(
        a, b, names, least
    )
    if format_ == "text":
        text = documents.as_text(found, **text_style(output))
    else:
        if format_ == "json":
            text = json_format.as_json(found)
        else:
            text = documents.as_markdown(found)
    write(text, output)
    hits = {
        SLOWER: bool(found.having(SLOWER)),
        "environment": bool(found.environment),
        "any": any(change.ratio.differs for change in found.changes),
    }
    reached = [word for word in dict.fromkeys(fail_on) if hits[word]]
    if reached:
        notify(f"failed on: {', '.join(reached)}")
    if reached:
        return FINDINGS_FOUND
    return 0


def _check_words(values: tuple[str, ...]) -> None:
    """Refuse an unknown word before anything is read."""
    from fusiondoc.comparison import WORDS
    from fusiondoc.model.codes import CODES

    for value in values:
        if (
            value not in WORDS
            and value not in SEVERITIES
            and value.upper() not in CODES
        ):
            known = f"Known: {', '.join((*WORDS, *SEVERITIES))}, and codes such as FD201."
            hint = nearest(value, (*WORDS, *SEVERITIES, *CODES)) or known
            raise UsageError(f"unknown word '{value}' for --fail-on", hint)


def _share(text: str) -> float:
    """``10%`` or ``10`` as 0.1."""
    percent = figure(text.strip().rstrip("%"))
    if percent is None or percent < 0:
        raise UsageError(
            f"--slower-than takes a percentage, not '{text}'",
            "For example: --slower-than 10%",
        )
    return percent / 100


def _emit(comparison: Any, format_: str | None, output: Path | None) -> None:
    """Write the comparison in the requested format to the requested file or
    stdout."""
    format_ = format_of(format_, output, ENDINGS)
    from fusiondoc.rendering.printable import in_github_log
    from fusiondoc.reports import render_comparison

    if format_ == "text":
        from fusiondoc.reports.comparison_documents import as_text

        text = as_text(comparison, **text_style(output), detail=detail())
    else:
        text = render_comparison(comparison, format_)
    if output is None and format_ != "json":
        text = in_github_log(text)
    write(text, output)
