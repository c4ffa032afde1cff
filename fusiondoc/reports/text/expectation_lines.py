"""The text of ``check``: a line for each expectation, the broken ones with what was found instead."""

from __future__ import annotations

import shlex
from typing import Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.model.report import Report
from fusiondoc.model.runs import NO_BACKWARD, Expectation
from fusiondoc.reports.printable import visible_in
from fusiondoc.reports.source_code import with_near_paths, with_near_places
from fusiondoc.reports.text.layout_of_text import Detail, Unbroken, drawn, names_and_texts


def render(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    detail: Detail = Detail.USUAL,
    links: bool = False,
) -> str:
    """The outcome of every expectation, in at most ``width`` columns.

    ``blocks`` and ``links`` are for the usual report, which has bars and codes; here nothing is drawn.
    """
    report = with_near_paths(visible_in(report))
    lines: list[RenderableType] = []
    section = ""
    folded = [one for one in report.expectations if one.why == NO_BACKWARD and not one.holds]
    for one in report.expectations:
        if one in folded[1:]:
            continue
        if one.section != section:
            section = one.section
            if section:
                lines.append(Text(section, style="bold"))
        table = names_and_texts(len("BROKEN"))
        word = Text("holds", style="green") if one.holds else Text("BROKEN", style="red")
        table.add_row(word, _sentence(one) if one not in folded else _no_backward(folded, report))
        lines.append(Padding(table, (0, 0, 0, 1)))
        if one in folded:
            lines.append(Unbroken(f"         $ {_command(report, one.file)}", "cyan"))
    broken = sum(not one.holds for one in report.expectations)
    total = len(report.expectations)
    verdict = f"{total - broken} of {total} expectations hold" + (f", {broken} broken" if broken else "")
    last = Text(verdict, style="red" if broken else "green")
    if detail is Detail.VERDICT:
        return drawn(last, width, colour)
    lines.append(last)
    if report.suppressed:
        lines.append(Text(f"suppressed findings: {len(report.suppressed)}"))
    if report.target.capture:
        lines.append(Unbroken(f"the whole report: fusiondoc parse {report.target.capture}"))
    return drawn(Lines(*lines), width, colour)


def _sentence(one: Expectation) -> str:
    if one.holds:
        return f"{one.expected}; found {one.found}"
    place = f"{one.file}:{one.line}: " if one.line is not None else ""
    return with_near_places(f"{place}{sentence(one)}")


def _no_backward(these: Sequence[Expectation], report: Report) -> str:
    """All expectations that only a backward pass can hold, in one line."""
    first = these[0]
    lines = ", ".join(str(one.line) for one in these if one.line is not None)
    place = f"{first.file}:{lines}: " if lines else ""
    what = "expects a backward pass" if len(these) == 1 else "expect a backward pass"
    return f"{place}{what}, and this run had none:"


def _command(report: Report, file: str) -> str:
    name = (report.target.name or "") if report.target.capture else ""
    if not name:
        return "fusiondoc check TARGET --backward --expect " + shlex.quote(file)
    return shlex.join(["fusiondoc", "check", name, "--backward", "--expect", file])


def sentence(one: Expectation) -> str:
    """``expected X; found Y: why``."""
    return f"expected {one.expected}; found {one.found}" + (f": {one.why}" if one.why else "")
