"""What all parts of one page share: texts that were read once, colours of reasons, the room that is left."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Iterable, Sequence

from fusiondoc.model.module_tree import outside
from fusiondoc.model.report import Evidence, Report
from fusiondoc.model.source import Source
from fusiondoc.reports.html.highlight import Highlighter
from fusiondoc.reports.source_code import near, without_column

HUES = 8
"""Colours for reasons; the rest share the last one. The code stands beside every colour."""

MOST_ROWS = 2_000
"""Rows of one table."""

MOST_TEXT = 900_000
"""Characters of IR, code and dumps together: a page of any run stays below five megabytes."""

QUOTED = 3
"""Lines of evidence that are quoted; the rest are counted."""


@dataclass(frozen=True)
class ReasonKind:
    """A reason over all its operators."""

    code: str
    text: str
    stated: bool
    count: int
    hue: str


@dataclass(frozen=True)
class Quote:
    """A line of the log, and its text where it is at hand."""

    place: str
    text: str | None


@dataclass(frozen=True)
class Quotes:
    """Lines of the log, and how many more there are."""

    lines: tuple[Quote, ...]
    left: int


class Context:
    """Reads the texts of a report once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.highlighter = Highlighter()
        self.groups = {group.id: group for group in report.groups}
        self.reasons = _reasons(report)
        self._hues = {reason.code: reason.hue for reason in self.reasons}
        self._files: dict[str, list[str] | None] = {}
        graphs = [group.evidence[0] for group in report.groups if group.evidence]
        self._excerpts = dict(report.texts.log(_lines(report), graphs)) if report.texts is not None else {}
        self._room = MOST_TEXT
        self._logs = list(dict.fromkeys(one.file for one in (*graphs, *_lines(report))))

    def hue(self, code: str | None) -> str:
        """The class of the colour of a reason."""
        return self._hues.get(code or "", f"r{HUES - 1}")

    def excerpt(self, evidence: Evidence) -> str | None:
        """The text of a line of the log, or the graph that begins there."""
        return self._excerpts.get(evidence)

    def place(self, evidence: Evidence) -> str:
        """Where a line of the log is."""
        return f"line {evidence.line:,}" if len(self._logs) == 1 else f"{near(evidence.file)}:{evidence.line}"

    def log_files(self) -> list[str]:
        """The logs that the page quotes."""
        return self._logs

    def lines_of(self, file: str) -> list[str] | None:
        """A source file of the user's, if it is at hand."""
        if file not in self._files:
            text = self.report.texts.source(file) if self.report.texts is not None else None
            self._files[file] = None if text is None else text.split("\n")
        return self._files[file]

    def code_at(self, user_source: str | None) -> str | None:
        """The text of ``file:line``."""
        place = Source.parse(user_source)
        lines = self.lines_of(place.file) if place is not None else None
        if place is None or lines is None or not 0 < place.line <= len(lines):
            return None
        return lines[place.line - 1].strip() or None

    def room_for(self, text: str) -> bool:
        """Whether the page has room for another long text; takes it if so."""
        if len(text) > self._room:
            return False
        self._room -= len(text)
        return True

    def quotes(self, evidence: Sequence[Evidence], most: int = QUOTED) -> Quotes:
        """Lines of the log with their places."""
        lines = []
        for one in islice(evidence, most):
            text = self.excerpt(one)
            lines.append(Quote(self.place(one), text.split("\n", 1)[0] if text else None))
        return Quotes(tuple(lines), max(0, len(evidence) - most))


def shown(source: str | None) -> str:
    """A source range for reading: near paths, without the column."""
    if not source:
        return ""
    return without_column(near(source))


def _reasons(report: Report) -> list[ReasonKind]:
    """What costs most comes first: what the log states, then the bytes that fusing would save."""
    counts: dict[str, int] = {}
    moved: dict[str, int] = {}
    first: dict[str, tuple[int, str, bool]] = {}
    for row in outside(report):
        code = row.reason.code
        counts[code] = counts.get(code, 0) + row.count
        moved[code] = moved.get(code, 0) + (row.bytes_moved or 0)
        if code not in first or row.count > first[code][0]:
            first[code] = (row.count, row.reason.text, row.reason.stated)
    order = sorted(counts, key=lambda code: (not first[code][2], -moved[code], -counts[code], code))
    return [
        ReasonKind(code, first[code][1], first[code][2], counts[code], f"r{min(nth, HUES - 1)}")
        for nth, code in enumerate(order)
    ]


def _lines(report: Report) -> Iterable[Evidence]:
    """The lines that the page quotes."""
    for program in report.programs:
        for node in program.nodes:
            yield from islice(node.evidence, 1)
    for rows in (report.unfused[:MOST_ROWS], report.findings, report.fallbacks):
        for row in rows:
            yield from islice(row.evidence, QUOTED)
