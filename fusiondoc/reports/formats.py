"""Which formats there are, and the module that makes each: imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fusiondoc.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from fusiondoc.comparison.differences import Comparison
    from fusiondoc.model.report import Report

REPORT_RENDERERS = {
    "json": "fusiondoc.reports.json_format",
    "html": "fusiondoc.reports.html",
    "markdown": "fusiondoc.reports.markdown",
    "sarif": "fusiondoc.reports.sarif",
    "junit": "fusiondoc.reports.junit",
    "gitlab": "fusiondoc.reports.gitlab",
    "github": "fusiondoc.reports.github",
}
"""Format -> the module whose ``render(report) -> str`` makes it."""
REPORT_FORMATS = ("text", *REPORT_RENDERERS)

COMPARISON_RENDERERS = {
    "json": "fusiondoc.reports.comparison.as_json",
    "markdown": "fusiondoc.reports.comparison.comment",
    "html": "fusiondoc.reports.comparison.page",
}
COMPARISON_FORMATS = ("text", *COMPARISON_RENDERERS)


def render_report(
    report: Report, format_: str, *, width: int = 80, colour: bool = False, blocks: bool = True
) -> str:
    """The report in a format. ``width`` (columns), ``colour`` (ANSI) and ``blocks`` (block characters can be
    shown) are for text.

    Raises:
        UsageError: there is no such format.
    """
    if format_ == "text":
        from fusiondoc.reports.text.screen import render

        return render(report, width=width, colour=colour, blocks=blocks)
    return _rendered(report, format_, REPORT_RENDERERS, "a report")


def render_comparison(
    comparison: Comparison, format_: str, *, width: int = 80, colour: bool = False, blocks: bool = True
) -> str:
    """The comparison in a format; see ``render_report``."""
    if format_ == "text":
        from fusiondoc.reports.comparison.terminal import render

        return render(comparison, width=width, colour=colour, blocks=blocks)
    return _rendered(comparison, format_, COMPARISON_RENDERERS, "a comparison")


def _rendered(what: object, format_: str, renderers: dict[str, str], name: str) -> str:
    if format_ not in renderers:
        raise UsageError(
            f"there is no format '{format_}' of {name}", did_you_mean(format_, ("text", *renderers))
        )
    text: str = importlib.import_module(renderers[format_]).render(what)
    return text
