"""Report model -> text, JSON, ...: the formats, and the module that makes each,
imported when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from fusiondoc.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from fusiondoc.comparison import Comparison
    from fusiondoc.model.bench import Bench
    from fusiondoc.model.report import Report

REPORT_RENDERERS = {
    "json": "fusiondoc.reports.json_format:render",
    "html": "fusiondoc.reports.html:render",
    "markdown": "fusiondoc.reports.markdown:render",
    "sarif": "fusiondoc.reports.sarif:render",
    "junit": "fusiondoc.reports.junit:render",
    "gitlab": "fusiondoc.reports.code_annotations:gitlab",
    "github": "fusiondoc.reports.code_annotations:github",
    "openmetrics": "fusiondoc.reports.openmetrics:render",
}
"""Format -> module and function ``(report) -> str`` that makes it."""
REPORT_FORMATS = ("text", *REPORT_RENDERERS)

COMPARISON_RENDERERS = {
    "json": "fusiondoc.reports.json_format:render",
    "markdown": "fusiondoc.reports.comparison_documents:as_markdown",
    "html": "fusiondoc.reports.comparison_documents:as_page",
}
COMPARISON_FORMATS = ("text", *COMPARISON_RENDERERS)


def render_report(
    report: Report,
    format_: str,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """Return the report in a format. ``width`` (columns), ``colour`` (ANSI) and
    ``blocks`` (block characters can be shown) are for text.

    Raises:
        UsageError: there is no such format.
    """
    if format_ == "text":
        from fusiondoc.reports.text.screen import render

        return render(report, width=width, colour=colour, blocks=blocks)
    return _rendered(report, format_, REPORT_RENDERERS, "a report")


def render_comparison(
    comparison: Comparison,
    format_: str,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """The comparison in a format; see ``render_report``."""
    if format_ == "text":
        from fusiondoc.reports.comparison_documents import as_text

        return as_text(comparison, width=width, colour=colour, blocks=blocks)
    return _rendered(comparison, format_, COMPARISON_RENDERERS, "a comparison")


def _rendered(
    what: object, format_: str, renderers: dict[str, str], name: str
) -> str:
    if format_ not in renderers:
        raise UsageError(
            f"there is no format '{format_}' of {name}",
            did_you_mean(format_, ("text", *renderers)),
        )
    module, _, function = renderers[format_].partition(":")
    text: str = getattr(importlib.import_module(module), function)(what)
    return text


def render_bench(
    bench: Bench, format_: str, *, width: int = 80, colour: bool = False
) -> str:
    """The result of ``fusiondoc bench`` in a format; see ``render_report``."""
    from fusiondoc.reports import bench_documents as documents
    from fusiondoc.reports import json_format

    if format_ == "text":
        return documents.as_text(bench, width=width, colour=colour)
    makers: dict[str, Callable[[Bench], str]] = {
        "json": json_format.as_json,
        "markdown": documents.as_markdown,
        "csv": documents.as_csv,
        "html": documents.as_page,
    }
    if format_ not in makers:
        raise UsageError(
            f"no format '{format_}' of a bench",
            did_you_mean(format_, ("text", *makers)),
        )
    return makers[format_](bench)
