"""The text of ``check``: a line for each expectation, the broken ones with what was found instead."""

from __future__ import annotations

import textwrap

from fusiondoc.model.report import Expectation, Report

_RED, _GREEN, _BOLD, _END = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


def render(report: Report, *, width: int = 80, colour: bool = False, blocks: bool = True) -> str:
    """The outcome of every expectation, in at most ``width`` columns where words allow it.

    ``blocks`` is for the usual report, which has bars; here nothing is drawn.
    """

    def styled(text: str, style: str) -> str:
        return f"{style}{text}{_END}" if colour else text

    lines = []
    section = None
    for one in report.expectations:
        if one.section != section:
            section = one.section
            if section:
                lines.append(styled(section, _BOLD))
        word = styled("holds ", _GREEN) if one.holds else styled("BROKEN", _RED)
        wrapped = textwrap.wrap(
            _sentence(one), max(30, width - 9), break_long_words=False, break_on_hyphens=False
        )
        lines.append(f" {word}  {wrapped[0]}")
        lines += [" " * 9 + line for line in wrapped[1:]]
    broken = sum(not one.holds for one in report.expectations)
    total = len(report.expectations)
    verdict = f"{total - broken} of {total} expectations hold" + (f", {broken} broken" if broken else "")
    lines.append(styled(verdict, _RED if broken else _GREEN))
    if report.suppressed:
        lines.append(f"suppressed findings: {len(report.suppressed)}")
    if report.target.get("capture"):
        lines.append(f"the whole report: fusiondoc parse {report.target['capture']}")
    return "\n".join(lines) + "\n"


def _sentence(one: Expectation) -> str:
    if one.holds:
        return f"{one.expected}; found {one.found}"
    place = f"{one.file}:{one.line}: " if one.line is not None else ""
    return f"{place}{sentence(one)}"


def sentence(one: Expectation) -> str:
    """``expected X; found Y: why``."""
    return f"expected {one.expected}; found {one.found}" + (f": {one.why}" if one.why else "")
