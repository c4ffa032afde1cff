"""Data that the sections of a report share: the format they are made for, the texts
of the log and of the user's files, read once, and the reasons of its operators in
their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice

from fusiondoc.model.code_kinds import Loss
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Evidence, Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.rendering.blocks import Formats
from fusiondoc.rendering.values import Quotes, ShownPosition, ShownReason
from fusiondoc.views.formatting import (
    near,
    where_called,
    where_from,
    without_column,
)

MOST_IN_TABLE = 1_200
"""Most operators in their table on a page."""
MOST_DETAILS = 300_000
"""Most characters of lines of the log that the boxes of pictures quote."""
QUOTED = 3
"""Number of lines of evidence that are quoted; the rest are counted."""


class ReportContext:
    """A report in the form that a format shows.

    Args:
        format_: only a page quotes the log, which is read again for it.
        every: rows that a terminal usually leaves out are shown.
    """

    def __init__(
        self, report: Report, format_: Formats = Formats.PAGE, every: bool = False
    ) -> None:
        self.report = report
        self.format = format_
        self.every = every
        self.groups = {group.id: group for group in report.groups}
        self._files: dict[str, list[str] | None] = {}
        self._room = MOST_DETAILS

    @cached_property
    def reasons(self) -> list[ShownReason]:
        """The reasons of all operators outside groups, each with its number of
        operators."""
        return _reasons(self.report, self.fixed)

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The operators of findings about which nothing can be done: kernels of a
        library, torch's code."""
        operators: set[str] = set()
        for finding in self.report.findings:
            if not can_change(finding.code):
                operators.update(finding.ops)
        return frozenset(operators)

    @cached_property
    def _excerpts(self) -> dict[Evidence, str]:
        texts = self.report.texts
        if texts is None or self.format is not Formats.PAGE:
            return {}
        return dict(texts.log(_quoted_lines(self.report), self._graphs))

    @cached_property
    def _graphs(self) -> list[Evidence]:
        """The lines at which the graphs of the groups begin."""
        graphs = []
        for group in self.report.groups:
            if group.evidence:
                graphs.append(group.evidence[0])
        return graphs

    @cached_property
    def _is_one_log(self) -> bool:
        return (
            len(
                {line.file for line in (*self._graphs, *_quoted_lines(self.report))}
            )
            == 1
        )

    def excerpt(self, evidence: Evidence) -> str | None:
        """Return the text of a line of the log, or the graph that begins there."""
        return self._excerpts.get(evidence)

    def position(self, evidence: Evidence) -> str:
        """Return the position of a line of the log."""
        is_short = self.format is Formats.PAGE and self._is_one_log
        if is_short:
            return f"line {evidence.line:,}"
        return f"{near(evidence.file)}:{evidence.line}"

    def lines_of(self, file: str) -> list[str] | None:
        """Return the lines of one of the user's source files; None if it is not
        available."""
        if file not in self._files:
            text = None
            if self.report.texts is not None:
                text = self.report.texts.source(file)
            self._files[file] = None if text is None else text.split("\n")
        return self._files[file]

    def code_at(self, source: str | None) -> str:
        """Return the text of ``file:line``; "" if the file is not available."""
        position = Source.parse(source)
        lines = self.lines_of(position.file) if position is not None else None
        if position is None or lines is None or not 0 < position.line <= len(lines):
            return ""
        return lines[position.line - 1].strip()

    def line(self, user_source: str | None, source: str | None) -> ShownPosition:
        """Return the user's line and the package's, with the code of the first that
        is available."""
        code = self.code_at(user_source) or self.code_at(source)
        if source and self.format is not Formats.TERMINAL:
            source = without_column(source)
        return ShownPosition(where_from(user_source, source), code)

    def line_of(self, row: Unfused) -> ShownPosition:
        """Return the same for an operator outside groups: the user's lines that may
        lead there."""
        if not row.called_from:
            return self.line(row.user_source, row.source)
        return ShownPosition(where_called(row), self.code_at(row.called_from[0]))

    def quotes(self, evidence: Sequence[Evidence], most: int = QUOTED) -> Quotes:
        """Return lines of the log with their positions."""
        lines = []
        for line in islice(evidence, most):
            text = self.excerpt(line) or ""
            lines.append(
                ShownPosition(self.position(line), text.partition("\n")[0])
            )
        return Quotes(tuple(lines), max(0, len(evidence) - most))

    def takes_room(self, characters: int) -> bool:
        """True if the boxes of pictures have room for another line of the log; the
        room is then taken."""
        if characters > self._room:
            return False
        self._room -= characters
        return True


def shown(source: str | None) -> str:
    """Return a readable source position, without the column."""
    if source:
        return without_column(near(source))
    return ""


def can_change(code: str) -> bool:
    """True if operators with this reason may be changed. A saved report of a later
    version can have codes that are not known."""
    return code not in CODES or CODES[code].loss is not Loss.NONE


def _reasons(report: Report, fixed: frozenset[str]) -> list[ShownReason]:
    """Return the causes in order: first those that can be changed, then those that
    the log states, then those with the most bytes that fusing would save. The text
    is that of the rows, if all have the same; else the title of the code."""
    counts: dict[str, int] = {}
    moved: dict[str, int] = {}
    first: dict[str, tuple[int, str, bool]] = {}
    hopeful = set()
    texts: dict[str, set[str]] = {}
    for row in outside(report):
        code = row.reason.code
        if can_change(code) and row.op not in fixed:
            hopeful.add(code)
        counts[code] = counts.get(code, 0) + row.count
        texts.setdefault(code, set()).add(row.reason.text)
        moved[code] = moved.get(code, 0) + (row.bytes_moved or 0)
        if code not in first or row.count > first[code][0]:
            first[code] = (row.count, row.reason.text, row.reason.stated)

    def rank(code: str) -> tuple[bool, bool, int, int, str]:
        return (
            code not in hopeful,
            not first[code][2],
            -moved[code],
            -counts[code],
            code,
        )

    made = []
    for code in sorted(counts, key=rank):
        is_one_text = len(texts[code]) == 1 or code not in CODES
        text = first[code][1] if is_one_text else CODES[code].title
        made.append(ShownReason(code, text, first[code][2], counts[code]))
    return made


def _quoted_lines(report: Report) -> Iterable[Evidence]:
    """Yield the lines that the page quotes."""
    for program in report.programs:
        for node in program.nodes:
            yield from islice(node.evidence, 1)
    for rows in (report.unfused[:MOST_IN_TABLE], report.findings, report.fallbacks):
        for row in rows:
            yield from islice(row.evidence, QUOTED)
