"""What the parts of a page of a report share: code with syntax colours (lines of spans with a few classes),
texts that were read once, colours of reasons, bars, the room that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from fusiondoc.model import dataclass
from fusiondoc.model.codes import CODES, Loss
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Evidence, Report
from fusiondoc.model.source import Source
from fusiondoc.rendering.pages import Room
from fusiondoc.views.formatting import near, without_column

_TURN = 137.508
"""Degrees between the colours of codes that follow each other: the golden angle keeps neighbours apart."""

MOST_ROWS = 2_000
"""Groups of a page."""

MOST_IN_TABLE = 1_200
"""Operators of their table."""

MOST_QUOTING = 500
"""Rows of the table of operators that quote the log."""

MOST_DETAILS = 300_000
"""Characters of what is folded below groups; of lines of the log that boxes quote."""

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
        self.room = Room(len(report.groups) + len(report.kernels) + len(report.unfused))
        self.groups = {group.id: group for group in report.groups}
        self.reasons = _reasons(report)
        self.fixed = _fixed_operators(report)
        self._files: dict[str, list[str] | None] = {}
        graphs = [group.evidence[0] for group in report.groups if group.evidence]
        self._excerpts = dict(report.texts.log(_lines(report), graphs)) if report.texts is not None else {}
        self._room = dict.fromkeys(("groups", "nodes"), MOST_DETAILS)
        self._logs = list(dict.fromkeys(one.file for one in (*graphs, *_lines(report))))

    def excerpt(self, evidence: Evidence) -> str | None:
        """The text of a line of the log, or the graph that begins there."""
        return self._excerpts.get(evidence)

    def place(self, evidence: Evidence) -> str:
        """Where a line of the log is."""
        return f"line {evidence.line:,}" if len(self._logs) == 1 else f"{near(evidence.file)}:{evidence.line}"

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

    def takes_room(self, part: str, characters: int) -> bool:
        """Whether a part of the page (a key of ``_room``) has room for more; takes it if so."""
        if characters > self._room[part]:
            return False
        self._room[part] -= characters
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


def hue(code: str | None) -> str:
    """The classes of the colour of a code: the same one on every page."""
    return f"hue {code}" if code in CODES else "hue"


def colours() -> str:
    """The rules of style that give every reason its colour."""
    return "".join(
        f".{code}{{--h:{int(code[2:]) * _TURN % 360:.0f}}}" for code in CODES if code.startswith("FD2")
    )


def can_change(code: str) -> bool:
    """Whether there may be something to do about operators with this reason."""
    return code not in CODES or CODES[code].loss is not Loss.NONE


def _fixed_operators(report: Report) -> frozenset[str]:
    """The operators that a finding says nothing can be done about: kernels of a library, torch's own code."""
    return frozenset(op for one in report.findings if not can_change(one.code) for op in one.ops)


def _reasons(report: Report) -> list[ReasonKind]:
    """What can be changed comes first, then what costs most: what the log states, then the bytes that fusing
    would save. The text is that of the rows, where all say the same; else what the code says of them all."""
    counts: dict[str, int] = {}
    moved: dict[str, int] = {}
    first: dict[str, tuple[int, str, bool]] = {}
    fixed, hopeful = _fixed_operators(report), set()
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
        return code not in hopeful, not first[code][2], -moved[code], -counts[code], code

    def text(code: str) -> str:
        return first[code][1] if len(texts[code]) == 1 or code not in CODES else CODES[code].title

    return [
        ReasonKind(code, text(code), first[code][2], counts[code], hue(code))
        for code in sorted(counts, key=rank)
    ]


def _lines(report: Report) -> Iterable[Evidence]:
    """The lines that the page quotes."""
    for program in report.programs:
        for node in program.nodes:
            yield from islice(node.evidence, 1)
    for rows in (report.unfused[:MOST_IN_TABLE], report.findings, report.fallbacks):
        for row in rows:
            yield from islice(row.evidence, QUOTED)
