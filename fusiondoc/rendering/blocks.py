"""Documents as sections of blocks with typed cells (``values``): all that renderers
get of a report or a survey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Flag

from fusiondoc.model import dataclass
from fusiondoc.rendering.picture_blocks import PICTURES, Bars, PictureBlock
from fusiondoc.rendering.values import (
    Cell,
    Gauge,
    Quotes,
    ShownReason,
    Status,
    Tone,
)


class Formats(Flag):
    """The formats that show a part of a document."""

    TERMINAL = 1
    MARKDOWN = 2
    PAGE = 4
    TEXT = TERMINAL | MARKDOWN
    ALL = TEXT | PAGE


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args: number: its cells are figures, aligned to the right. wanted: 0 is always
        shown; if the width of a format is limited, the column with the lowest value
        above 0 is left out first. optional: a terminal leaves it out if no cell in
        it has a known value. spread: the intervals of its durations are shown on a
        terminal that has room for them. wide: it has long texts, for which a page
        keeps room. cut: a terminal cuts its texts to the room that the other
        columns leave. formats: the formats that show it.
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

    Args: above: a separate line before the row, for all rows up to the next such
        line. narrow: the same row as a title and a sentence, for a format with few
        columns.
    """

    cells: tuple[Cell, ...]
    above: str | ShownReason | None = None
    narrow: tuple[str, str] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of cells under heads.

    Args:
        caption: its name for a screen reader; by default the title.
        left_out: number of rows that no format shows.
        on_terminal: number of rows that a terminal shows; None: all.
        bare: a terminal leaves out the heads, and cells that repeat the row above.
        dense: a terminal puts one space instead of two between its columns.
        formats: the formats that show it; others have another table, or sentences.
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
class NamedValues:
    """Names and values."""

    rows: tuple[tuple[str, str | Cell], ...]
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Remarks:
    """Independent sentences."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Sentences:
    """Lines of text; ``tone`` is their emphasis, ``link`` the section of a page to
    which they lead."""

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
        marks: its status.
        text: its text.
        position: its source position.
        details: further lines on it.
        groups: the groups that it is about.
        quotes: the lines of the log that prove it; only pages have them.
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
    """An entry with blocks of its own: a group, a kernel.

    Args:
        key: its anchor on a page.
        tag: its id.
        title: a description of it.
        note: further properties that distinguish it from others.
        marks: its status.
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
class CodeBlock:
    """Lines that keep their breaks: a program, commands to copy.

    Args: text: the lines, with their breaks. label: their name for a screen reader.
        language: the syntax for colours, in formats that have them: ``cuda``,
        ``ir`` or ``python``.
    """

    text: str
    label: str
    language: str = ""
    formats: Formats = Formats.ALL


@dataclass(frozen=True)
class Command:
    """A command to copy, after the text ``lead``."""

    text: str
    lead: str = ""


@dataclass(frozen=True)
class ListedChange:
    """A change to make.

    Args:
        gain: its gain, in words.
        position: the line that changes.
        unlocks: the operators that it lets fuse.
        diff: its lines, with - and +.
        code: lines of a program that make the change.
        proof: the runs that showed that it helps.
        command: the command that tries it.
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
class ChangeList:
    """Changes in their order. ``first`` is the number of the first row."""

    rows: tuple[ListedChange, ...]
    first: int = 1


Block = (
    Table
    | NamedValues
    | Remarks
    | Sentences
    | Heading
    | Items
    | Entries
    | Diff
    | CodeBlock
    | Command
    | ChangeList
    | PictureBlock
)


@dataclass(frozen=True)
class Section:
    """A part of a document.

    Args:
        key: its anchor on a page.
        formats: the formats that show it.
        link: its title in the navigation of a page; by default the title.
    """

    key: str
    title: str
    note: str = ""
    blocks: tuple[Block, ...] = ()
    formats: Formats = Formats.ALL
    link: str = ""


@dataclass(frozen=True)
class Card:
    """A card on the first screen of a page: a question and its answer.

    Args:
        title: the question.
        big: the answer in a word or a figure, with its unit.
        bar: the answer as a share.
        rows: the parts of the answer.
        blocks: further information.
    """

    title: str
    big: str = ""
    unit: str = ""
    bar: Gauge | None = None
    rows: tuple[tuple[Cell, ...], ...] = ()
    blocks: tuple[Block, ...] = ()

    @property
    def rows_class(self) -> str:
        """The class of the rows in the pages' style: reasons, kernels with bars, or
        names with their numbers."""
        if isinstance(self.rows[0][0], (ShownReason, Status)):
            return "whys"
        if any(isinstance(cell, Gauge) for cell in self.rows[0]):
            return "light"
        return "tally"


@dataclass(frozen=True)
class Document:
    """The whole content of a report or another result.

    Args:
        command: the command of fusiondoc that makes it.
        name: its subject, such as the target.
        verdict: the result in one sentence.
        lead: the machine that it ran on, or the files that were read.
        facts: the same as names and values.
        warning: a sentence to read before all others.
        notes: blocks below the lead of a page.
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
    """Return the sections, blocks and columns that a format shows and that are not
    empty."""
    kept = []
    for section in sections:
        if format_ & section.formats:
            blocks = shown_blocks(section.blocks, format_)
            if blocks:
                kept.append(replace(section, blocks=blocks))
    return tuple(kept)


def shown_blocks(blocks: Sequence[Block], format_: Formats) -> tuple[Block, ...]:
    """Return the blocks of a section or an entry that a format shows and that are
    not empty."""
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
    """Return the table with the columns of a format."""
    if all(format_ & column.formats for column in table.columns):
        return table
    kept = []
    for number, column in enumerate(table.columns):
        if format_ & column.formats:
            kept.append(number)
    rows = []
    for row in table.rows:
        rows.append(replace(row, cells=tuple(row.cells[number] for number in kept)))
    return replace(
        table,
        columns=tuple(table.columns[number] for number in kept),
        rows=tuple(rows),
    )


def _holds(block: Block) -> bool:
    if isinstance(block, (Diff, Heading, Command, CodeBlock)):
        return bool(block.text)
    if isinstance(block, (Remarks, Sentences)):
        return bool(block.lines)
    if isinstance(block, Bars):
        return bool(block.bars)
    return bool(block.rows)
