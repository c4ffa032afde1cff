"""Documents on a terminal: sections below one another, tables that fit into its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.console import Group as Lines
from rich.console import JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Styled

from fusiondoc.rendering.blocks import (
    Block,
    Cell,
    Column,
    Count,
    Diff,
    Document,
    Factor,
    Facts,
    Item,
    Items,
    Remarks,
    Row,
    Section,
    Table,
    Tone,
    without_pictures,
)
from fusiondoc.rendering.cells import interval_of, tone_of, written
from fusiondoc.rendering.drawing import Indented, WithVariables, drawn, fields, names_and_texts, plain, prose
from fusiondoc.rendering.printable import visible_in
from fusiondoc.rendering.units import TERMINAL

STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.DIM: "dim",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.DOUBTFUL: "yellow",
}
_GAP = 2
_LONGEST_HEAD = 8
"""A longer head of figures continues in a second line, behind a hyphen."""


def render(document: Document, *, width: int = 80, colour: bool = False, blocks: bool = True) -> str:
    """The document as text of at most ``width`` columns, with ANSI colours if ``colour``.

    Args:
        blocks: arrows and block characters can be shown; else they are plain ASCII.
    """
    document = visible_in(document)
    head = fields()
    for name, value in document.facts:
        head.add_row(name, value)
    warning = [Styled(document.warning, style=STYLES[Tone.BAD])] if document.warning else []
    parts: list[RenderableType] = [*warning, head]
    for section in without_pictures(document.sections):
        if section.off_terminal:
            continue
        parts += _section(section, width)
    parts += ["", Styled(document.verdict, style="bold")]
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else plain(text)


def _section(section: Section, width: int) -> Iterator[RenderableType]:
    bodies = [_block(block, width - 1) for block in section.blocks]
    title = Styled(section.title, style="bold")
    if section.note:
        title.append(f"  {section.note}", style="not bold dim")
    yield from ("", title)
    yield from (Padding(body, (0, 0, 0, 1)) for body in bodies)


def _block(block: Block, width: int) -> RenderableType:
    if isinstance(block, Table):
        return _table(block, width)
    if isinstance(block, Facts):
        return _facts(block)
    if isinstance(block, Items):
        return Lines(*(_item(item) for item in block.rows), *_left_out(block.left_out))
    if isinstance(block, Remarks):
        return Lines(*(prose(f"→ {line}") for line in block.lines))
    assert isinstance(block, Diff)
    return Styled(block.text)


def _facts(facts: Facts) -> RenderableType:
    table = names_and_texts(max((cell_len(name) for name, _ in facts.rows), default=0))
    for name, value in facts.rows:
        table.add_row(name, value)
    return table


def _table(table: Table, width: int) -> RenderableType:
    parts: list[RenderableType] = []
    if table.title:
        title = Styled(table.title, style="dim")
        parts.append(title.append(f"  {table.note}" if table.note else ""))
    if any(row.narrow is not None for row in table.rows):
        parts += _sentences(table.rows)
    else:
        parts.append(_grid(table, width))
    return Lines(*parts, *_left_out(table.left_out))


def _sentences(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """Each row as a title, and below it a sentence."""
    for row in rows:
        if row.narrow is not None:
            title, sentence = row.narrow
            yield Styled(title)
            yield Padding(Styled(sentence, style="dim"), (0, 0, 0, 2))


def _grid(table: Table, width: int) -> RenderableType:
    """The heads, then the rows below their lines; columns have one width in all of them."""
    kept = fitting(table, width)
    intervals = _needed(table, kept, intervals=True) <= width
    heads = _columns(table, kept, width, intervals)
    heads.add_row(*(Styled(_head(table.columns[number]), style="dim") for number in kept))
    parts: list[RenderableType] = [heads]
    for above, rows in groupby(table.rows, key=lambda row: row.above):
        grid = heads
        if above is not None:
            grid = _columns(table, kept, width, intervals)
            parts += [Styled(above, style="dim"), grid]
        for row in rows:
            grid.add_row(*(_cell(row.cells[number], intervals) for number in kept))
    return Lines(*parts)


def _columns(table: Table, kept: Sequence[int], width: int, intervals: bool) -> Grid:
    """A grid without rows. Words give way where there is no room; figures are never cut."""
    fits = _needed(table, kept, intervals) <= width
    grid = Grid(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=False)
    for number in kept:
        is_number = table.columns[number].number
        justify: JustifyMethod = "right" if is_number else "left"
        least = _width(table, number, intervals) if is_number or fits else None
        grid.add_column(justify=justify, overflow="fold", no_wrap=is_number, min_width=least)
    return grid


def _head(column: Column) -> str:
    if column.number and len(column.head) > _LONGEST_HEAD:
        return column.head.replace("-", "-\n")
    return column.head


def _cell(cell: Cell, interval: bool) -> Styled:
    return Styled(_text(cell, interval), style=STYLES[tone_of(cell)])


def _text(cell: Cell, interval: bool = True) -> str:
    """The cell; only a ratio has its interval here."""
    text = written(cell, TERMINAL)
    if not interval or not isinstance(cell, Factor) or not interval_of(cell):
        return text
    return f"{text} ({interval_of(cell)})"


def fitting(table: Table, width: int) -> list[int]:
    """The numbers of the columns that ``width`` has room for; a column of which nothing is known is left out,
    and one that counts what never happened."""
    kept = []
    for number, column in enumerate(table.columns):
        if column.wanted == 0 or not all(_is_empty(row.cells[number]) for row in table.rows):
            kept.append(number)
    while _needed(table, kept, intervals=True) > width:
        droppable = [number for number in kept if table.columns[number].wanted]
        if not droppable:
            break
        kept.remove(min(droppable, key=lambda number: table.columns[number].wanted))
    return kept


def _is_empty(cell: Cell) -> bool:
    if isinstance(cell, Count):
        return not cell.number
    return _text(cell) in ("", TERMINAL.unknown)


def _needed(table: Table, kept: Sequence[int], intervals: bool) -> int:
    return sum(_width(table, number, intervals) + _GAP for number in kept) - _GAP


def _width(table: Table, number: int, intervals: bool) -> int:
    heads = [cell_len(line) for line in _head(table.columns[number]).split("\n")]
    return max(heads + [cell_len(_text(row.cells[number], intervals)) for row in table.rows])


def _item(item: Item) -> RenderableType:
    line = Styled()
    for mark in item.marks:
        line.append(f"{mark.sign or mark.word} ", style=STYLES[mark.tone])
    line.append(item.text)
    if item.position:
        line.append(f"  {item.position}", style="dim")
    details = (Indented(WithVariables(text), 2) for text in item.details)
    return Lines(line, *details)


def _left_out(number: int) -> list[RenderableType]:
    return [Styled(f"... {number:,} more: --format json has all", style="dim")] if number > 0 else []
