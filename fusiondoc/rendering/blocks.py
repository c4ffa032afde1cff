"""Documents as sections of blocks with typed cells (``values``): all that a
renderer knows of a report or a survey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Flag

from fusiondoc.model import dataclass
from fusiondoc.rendering.picture_blocks import PICTURES, Bars, PictureBlock
from fusiondoc.rendering.values import Cause, Cell, Gauge, Quotes, Status, Tone


class Formats(Flag):
    """The formats that show something."""

    TERMINAL = 1
    MARKDOWN = 2
    PAGE = 4
    TEXT = TERMINAL | MARKDOWN
    ALL = TEXT | PAGE


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args: number: its cells are figures, which stand at the right. wanted: 0 is
        always shown; where a format has a width, the column with the least is left
        out first. optional: a terminal leaves it out where nothing in it is known.
        spread: the intervals of its durations are shown on a terminal that has room
        for them. wide: it has long texts, for which a page keeps room. cut: a
        terminal cuts its texts to the room that the other columns leave. formats:
        the others leave it out.
    """

    head: str
    number: bool = False
    wanted: int = 0
    optional: bool = False
    spread: bool = False
    wide: bool = False
    cut: bool = False
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args: above: a line of its own before the row, for all rows up to the next one.
        narrow: the same row as a title and a sentence, for a format with few
        columns.
    """

    cells: tuple[Cell, ...]
    above: str | Cause | None = None
    narrow: tuple[str, str] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of cells under heads.

    Args:
        caption: its name for a screen reader; without it the title.
        left_out: rows that no format shows.
        on_terminal: a terminal shows so many rows; None: all.
        bare: a terminal leaves out the heads, and what repeats the row above.
        dense: a terminal keeps one column between the columns of it.
        formats: the others have another table, or sentences, for it.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    note: str = ""
    caption: str = ""
    left_out: int = 0
    on_terminal: int | None = None
    bare: bool = False
    dense: bool = False
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    rows: tuple[tuple[str, str | Cell], ...]
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Remarks:
    """Sentences, each for itself."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Sentences:
    """Lines of text; ``tone`` says how they stand out, ``link`` is the section of a
    page they lead to."""

    lines: tuple[str, ...]
    tone: Tone = Tone.PLAIN
    formats: Formats = Formats.ALL
    link: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading inside a section; ``key`` is its anchor on a page."""

    text: str
    key: str = ""
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Item:
    """An entry of a list.

    Args:
        marks: what became of it.
        text: what it is.
        position: its source position.
        details: what more there is to know.
        groups: the groups that it is about.
        quotes: the lines of the log that show it; only pages have them.
    """

    marks: tuple[Status, ...]
    text: str
    position: str = ""
    details: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    quotes: Quotes | None = None


@dataclass(frozen=True)
class Items:
    """A list. ``left_out`` entries are not shown, nor those beyond ``on_terminal``
    on a terminal."""

    rows: tuple[Item, ...]
    left_out: int = 0
    on_terminal: int | None = None


@dataclass(frozen=True)
class Entry:
    """Something that has blocks of its own: a group, a kernel.

    Args:
        key: its anchor on a page.
        tag: what it is called.
        title: what it is.
        note: what else tells it from the others.
        marks: what became of it.
        remark: a line below it.
    """

    key: str
    tag: str
    title: str
    note: str = ""
    marks: tuple[Status, ...] = ()
    remark: str = ""
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Entries:
    """A list of entries, which a page folds. ``left_out`` entries are not shown."""

    rows: tuple[Entry, ...]
    left_out: int = 0
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Diff:
    """A unified diff."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines that keep their breaks: a program, commands to copy.

    Args: text: the lines, with their breaks. label: names them for a screen reader.
        language: its syntax has colours, where a format has these: ``cuda``, ``ir``
        or ``python``.
    """

    text: str
    label: str
    language: str = ""
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Command:
    """A command to copy, behind ``lead``."""

    text: str
    lead: str = ""


@dataclass(frozen=True)
class Step:
    """A change to make.

    Args:
        gain: what it brings.
        position: the line that changes.
        unlocks: what becomes possible.
        diff: its lines, with - and +.
        code: lines of a program that do it.
        proof: the runs that showed that it helps.
        command: the one that tries it.
    """

    text: str
    gain: str = ""
    position: str = ""
    unlocks: str = ""
    diff: str = ""
    note: str = ""
    code: str = ""
    proof: str = ""
    command: Command | None = None


@dataclass(frozen=True)
class Steps:
    """Changes in their order. ``first`` is the number of the first row."""

    rows: tuple[Step, ...]
    first: int = 1


Block = (
    Table
    | Facts
    | Remarks
    | Sentences
    | Heading
    | Items
    | Entries
    | Diff
    | Code
    | Command
    | Steps
    | PictureBlock
)


@dataclass(frozen=True)
class Section:
    """A part of a document.

    Args:
        key: its anchor on a page.
        formats: the others leave it out.
        link: its title in the navigation of a page; without it the title.
    """

    key: str
    title: str
    note: str = ""
    blocks: tuple[Block, ...] = ()
    formats: Formats = Formats.ALL
    link: str = ""


@dataclass(frozen=True)
class Card:
    """An answer of the first screen of a page.

    Args:
        title: the question.
        big: the answer in a word or a figure, with its unit.
        bar: the same as a share.
        rows: what it is made of.
        blocks: what more there is to know.
    """

    title: str
    big: str = ""
    unit: str = ""
    bar: Gauge | None = None
    rows: tuple[tuple[Cell, ...], ...] = ()
    blocks: tuple[Block, ...] = ()

    @property
    def rows_class(self) -> str:
        """How the rows stand: reasons, kernels with bars, or names with their
        numbers."""
        if isinstance(self.rows[0][0], (Cause, Status)):
            return "whys"
        return (
            "light"
            if any(isinstance(cell, Gauge) for cell in self.rows[0])
            else "tally"
        )


@dataclass(frozen=True)
class Document:
    """All that is shown of something.

    Args:
        command: the command of fusiondoc that makes it.
        name: what it is about.
        verdict: all of it in one sentence.
        lead: on what it ran, or what was read.
        facts: the same in names and values.
        warning: to be known before all of it.
        notes: what a page has below its lead.
        cards: the first screen of a page.
    """

    command: str
    name: str
    verdict: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    warning: str = ""
    notes: tuple[Block, ...] = ()
    cards: tuple[Card, ...] = ()


def shown(sections: Sequence[Section], format_: Formats) -> tuple[Section, ...]:
    """The sections, blocks and columns that a format shows and that hold
    anything."""
    kept = []
    for section in sections:
        if format_ & section.formats:
            blocks = shown_blocks(section.blocks, format_)
            if blocks:
                kept.append(replace(section, blocks=blocks))
    return tuple(kept)


def shown_blocks(blocks: Sequence[Block], format_: Formats) -> tuple[Block, ...]:
    """The blocks of a section or an entry that a format shows and that hold
    anything."""
    kept: list[Block] = []
    for block in blocks:
        if not format_ & _formats_of(block):
            continue
        if isinstance(block, Table):
            block = _with_columns(block, format_)
        if _holds(block):
            kept.append(block)
    return tuple(kept)


def _formats_of(block: Block) -> Formats:
    if isinstance(block, PICTURES):
        return Formats.PAGE
    return getattr(block, "formats", Formats.ALL)


def _with_columns(table: Table, format_: Formats) -> Table:
    """The table with the columns of a format."""
    if all(format_ & column.formats for column in table.columns):
        return table
    kept = [
        number
        for number, column in enumerate(table.columns)
        if format_ & column.formats
    ]
    rows = []
    for row in table.rows:
        rows.append(replace(row, cells=tuple(row.cells[number] for number in kept)))
    return replace(
        table,
        columns=tuple(table.columns[number] for number in kept),
        rows=tuple(rows),
    )


def _holds(block: Block) -> bool:
    if isinstance(block, (Diff, Heading, Command, Code)):
        return bool(block.text)
    if isinstance(block, (Remarks, Sentences)):
        return bool(block.lines)
    if isinstance(block, Bars):
        return bool(block.bars)
    return bool(block.rows)
