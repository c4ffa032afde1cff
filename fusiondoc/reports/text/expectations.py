"""The text of ``check``: a line for each expectation; broken ones with the result
that was found instead."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import NO_BACKWARD, Expectation
from fusiondoc.rendering.drawing import (
    Detail,
    Unbroken,
    drawn,
    names_and_texts,
)
from fusiondoc.rendering.printable import visible
from fusiondoc.views.formatting import (
    near,
    with_near_paths,
    with_short_positions,
)
from fusiondoc.views.losses_in_sentences import expected_and_found
from fusiondoc.views.report_checks import numbers_in_a_line


def expectation_text(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    detail: Detail = Detail.USUAL,
    links: bool = False,
) -> str:
    """Return the outcome of every expectation, in at most ``width`` columns.

    ``blocks`` and ``links`` are for the usual report, which has bars and codes;
    this text has neither.
    """
    report = with_near_paths(report, first=visible)
    broken = any(not one.holds for one in report.expectations)
    last: list[RenderableType] = [
        Text(_verdict(report), style="red" if broken else "green")
    ]
    compared = numbers_in_a_line(report)
    if compared is not None:
        last.append(Text(f"Numbers: {compared}"))
    if detail is Detail.VERDICT:
        return drawn(Lines(*last), width, colour)
    lines = [*_outcomes(report), *last, *map(Text, doubts(report))]
    if report.suppressed:
        lines.append(Text(f"suppressed findings: {len(report.suppressed)}"))
    if report.target.capture:
        lines.append(
            Unbroken(f"the whole report: fusiondoc parse {report.target.capture}")
        )
    return drawn(Lines(*lines), width, colour)


def _outcomes(report: Report) -> Iterator[RenderableType]:
    """Yield a line for each expectation, below its section; expectations that fail
    because the run had no backward pass share one."""
    section = ""
    folded = []
    for row in report.expectations:
        if row.why == NO_BACKWARD and not row.holds:
            folded.append(row)
    for row in report.expectations:
        if row in folded[1:]:
            continue
        if row.section != section:
            section = row.section
            if section:
                yield Text(section, style="bold")
        table = names_and_texts(len("BROKEN"))
        if row.holds:
            word = Text("holds", style="green")
        else:
            word = Text("BROKEN", style="red")
        table.add_row(
            word,
            _sentence(row) if row not in folded else _no_backward(folded, report),
        )
        yield Padding(table, (0, 0, 0, 1))
        if row in folded:
            yield Unbroken(f"         $ {_command(report, row.file)}", "cyan")


def doubts(report: Report) -> list[str]:
    """Return the problems of the run or its log as a whole, which may be why
    expectations hold or are broken."""
    shown = {one.code for one in report.expectations}
    sentences = []
    for finding in report.findings:
        if (
            finding.severity != "note"
            and finding.code[:3] in ("FD0", "FD1", "FD9")
            and not finding.ops
            and finding.code not in shown
        ):
            sentences.append(
                f"{finding.severity} {finding.code}: {with_short_positions(finding.message)}"
                + _what_to_change(finding)
            )
    return list(dict.fromkeys(sentences))


def _what_to_change(finding: Finding) -> str:
    """Return the line of the program and the advice, for a finding that has both;
    else ""."""
    if finding.source is None or finding.advice is None:
        return ""
    return f" ({near(finding.source)}). {finding.advice}"


def broken_expectations(report: Report) -> list[str]:
    """Return the sentences of the broken expectations and their number, with the
    notes on those that hold. Without broken ones only these notes."""
    report = with_near_paths(report, first=visible)
    broken = [one for one in report.expectations if not one.holds]
    notes = []
    for one in report.expectations:
        if one.holds and one.note:
            notes.append(f"note: {one.note}")
    if not broken:
        return list(dict.fromkeys(notes))
    return [
        *(f"BROKEN {_sentence(one)}" for one in broken),
        *dict.fromkeys(notes),
        _verdict(report),
    ]


def _verdict(report: Report) -> str:
    broken = sum(not one.holds for one in report.expectations)
    total = len(report.expectations)
    return f"{total - broken} of {total} expectations hold" + (
        f", {broken} broken" if broken else ""
    )


def _sentence(one: Expectation) -> str:
    if one.holds:
        return f"{one.expected}; found {one.found}" + (
            f" (note: {one.note})" if one.note else ""
        )
    position = f"{one.file}:{one.line}: " if one.line is not None else ""
    if one.code is not None and one.source is not None:  # not in the file
        position = f"{near(one.source)}: "
    return with_short_positions(f"{position}{expected_and_found(one)}")


def _no_backward(these: Sequence[Expectation], report: Report) -> str:
    """Return in one line all expectations that fail because the run had no backward
    pass."""
    first = these[0]
    lines = ", ".join(str(one.line) for one in these if one.line is not None)
    position = f"{first.file}:{lines}: " if lines else ""
    if len(these) == 1:
        what = "expects a backward pass"
    else:
        what = "expect a backward pass"
    return f"{position}{what}, and this run had none:"


def _command(report: Report, file: str) -> str:
    name = (report.target.name or "") if report.target.capture else ""
    if not name:
        return "fusiondoc check TARGET --backward --expect " + shlex.quote(file)
    return shlex.join(["fusiondoc", "check", name, "--backward", "--expect", file])
