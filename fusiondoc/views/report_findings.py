"""The findings as a section, worst first, and the groups that fell back."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.model import count
from fusiondoc.model.report import Finding
from fusiondoc.rendering.blocks import (
    Block,
    Column,
    Entries,
    Entry,
    Formats,
    Item,
    Items,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.drawing import MOST_ROWS
from fusiondoc.rendering.values import Cell, IdLinks, Status, Text, Tone
from fusiondoc.views.formatting import DOING, near, with_short_positions
from fusiondoc.views.report_context import ReportContext, can_change, shown
from fusiondoc.views.step_words import takes

MOST_SINGLE = 100
"""Most findings on single operators; the table of those operators has all."""
_TONES = {"error": Tone.BAD, "warning": Tone.DOUBTFUL, "note": Tone.NOTE}
_SIGNS = {"error": "🔴", "warning": "🟡", "note": "🔵"}


def findings(context: ReportContext) -> Section:
    """Section of every finding with its advice. Findings that the rows of their
    operators repeat are one line or folded; those that the first lines of the
    report have are left out."""
    main, single = _main_and_single(context)
    if not main and not single:
        nothing = () if _worst_of_first_screen(context) else ("none",)
        return Section("findings", "Findings", blocks=(Sentences(nothing),))
    most = None if context.every else MOST_ROWS
    items = Items(
        tuple(_item(finding, context) for finding in main), on_terminal=most
    )
    return Section("findings", "Findings", blocks=(items, _single(single, context)))


def _main_and_single(context: ReportContext) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that are shown one by one, and those on single
    operators."""
    listed = []
    for finding in context.report.findings:
        if not finding.in_header:
            listed.append(finding)
    worst = _worst_of_first_screen(context)
    main = []
    for finding in listed:
        if finding is not worst and (context.every or not finding.in_rows):
            main.append(finding)
    single = []
    for finding in listed:
        if finding.in_rows and not context.every:
            single.append(finding)
    if context.format is Formats.PAGE:
        main.sort(key=lambda finding: not can_change(finding.code))
    return main, single


def _worst_of_first_screen(context: ReportContext) -> Finding | None:
    """Return the error that the first screen of a terminal shows completely; None
    without one."""
    if context.format is not Formats.TERMINAL or context.every:
        return None
    listed = (
        one
        for one in context.report.findings
        if not one.in_header and not one.in_rows
    )
    worst = None
    for finding in listed:
        if finding.severity == "error":
            worst = finding
            break
    if worst is not None and not (worst.advice or worst.source):
        return worst
    return None


def _item(finding: Finding, context: ReportContext) -> Item:
    severity = f"{finding.severity} {finding.code}"
    mark = Status(
        severity,
        _TONES.get(finding.severity, Tone.PLAIN),
        _SIGNS.get(finding.severity, ""),
    )
    return Item(
        (mark,),
        _text(finding, context.format),
        shown(finding.source),
        details=(f"→ {finding.advice}",) if finding.advice else (),
        quotes=context.quotes(finding.evidence),
    )


def _text(finding: Finding, format_: Formats) -> str:
    message = finding.message
    if format_ is Formats.TERMINAL:
        if finding.source:
            message = message.replace(finding.source, near(finding.source))
        message = with_short_positions(message)
    if finding.time is None:
        return message
    return f"{message}, {takes(finding.time)} of a step"


def _single(single: Sequence[Finding], context: ReportContext) -> Block:
    """Return findings on single operators: folded on a page, one line in text."""
    if not single:
        return Sentences(())
    number = count(len(single), "finding")
    if context.format is Formats.PAGE:
        items = Items(
            tuple(_item(one, context) for one in single[:MOST_SINGLE]),
            len(single[MOST_SINGLE:]),
        )
        title = "on single operators: the table under Not fused has their reasons"
        return Entries((Entry("", number, title, blocks=(items,)),))
    codes = sorted({finding.code for finding in single})
    where = "above" if context.format is Formats.TERMINAL else "below"
    line = f"{number} on operators {where} ({', '.join(codes)}): fusiondoc explain {codes[0]}"
    return Sentences((line,))


_FALLBACKS = (
    Column("group"),
    Column("while"),
    Column("times"),
    Column("error", wide=True, optional=True, formats=~Formats.TERMINAL),
    Column("in the log", wide=True),
)


def fallbacks(context: ReportContext) -> Section:
    """Section of the groups that fell back to unfused operators."""
    rows = []
    for fallback in context.report.fallbacks:
        often = f"{'' if fallback.count_exact else 'at least '}{count(fallback.count, 'time')}"
        cells: tuple[Cell, ...] = (
            IdLinks((fallback.group,)) if fallback.group else Text("group unknown"),
            Text(f"while {DOING.get(fallback.stage, fallback.stage)}"),
            Text(often),
            Text(fallback.error or ""),
            context.quotes(fallback.evidence),
        )
        rows.append(Row(cells))
    table = Table(_FALLBACKS, tuple(rows), caption="Fallbacks", bare=True)
    return Section("fallbacks", "Fallbacks", blocks=(table,))
