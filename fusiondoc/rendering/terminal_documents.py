"""Documents on a terminal: sections below one another, tables that fit into its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.cells import cell_len
from rich.console import Group as Lines
from rich.console import JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Styled

from fusiondoc.rendering.blocks import (
    Block,
    Code,
    Column,
    Command,
    Diff,
    Document,
    Facts,
    Heading,
    Item,
    Items,
    Remarks,
    Row,
    Section,
    Sentences,
    Step,
    Steps,
    Table,
    without_pictures,
)
from fusiondoc.rendering.cells import interval_of, tone_of, written
from fusiondoc.rendering.drawing import (
    Indented,
    Unbroken,
    WithVariables,
    bar,
    drawn,
    fields,
    names_and_texts,
    plain,
    prose,
)
from fusiondoc.rendering.printable import visible_in
from fusiondoc.rendering.units import TERMINAL
from fusiondoc.rendering.values import Cell, Count, Factor, Gauge, Millis, Tone

STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.DIM: "dim",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.DOUBTFUL: "yellow",
}
_GAP = 2
_GAUGE = 20
"""Characters of a bar in a table."""
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
    parts += sections(document.sections, width)
    parts += ["", Styled(document.verdict, style="bold")]
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else plain(text)


def sections(these: Sequence[Section], width: int) -> Iterator[RenderableType]:
    """The sections that a terminal shows, each behind an empty line, in ``width`` columns."""
    for section in without_pictures(these):
        if not section.off_terminal:
            yield from _section(section, width)


def _section(section: Section, width: int) -> Iterator[RenderableType]:
    title = Styled(section.title, style="bold")
    if section.note:
        title.append(f"  {section.note}", style="not bold dim")
    yield from ("", title)
    before: Block | None = None
    for block in section.blocks:
        if isinstance(before, Table) and isinstance(block, Table) and not block.title:
            yield ""
        yield Indented(_block(block, width - 1))
        before = block


def _block(block: Block, width: int) -> RenderableType:
    if isinstance(block, Table):
        return _table(block, width)
    if isinstance(block, Facts):
        return _facts(block)
    if isinstance(block, Items):
        return Lines(*(_item(item) for item in block.rows), *_left_out(block.left_out))
    if isinstance(block, Remarks):
        return Lines(*(prose(f"→ {line}") for line in block.lines))
    if isinstance(block, Heading):
        return Styled(block.text, style=STYLES[Tone.STRONG])
    if isinstance(block, Sentences):
        return Lines(*(prose(line, STYLES[block.tone]) for line in block.lines))
    if isinstance(block, Steps):
        return Lines(*(part for number, step in enumerate(block.rows, 1) for part in _step(number, step)))
    if isinstance(block, Command):
        return Lines(*_command(block))
    if isinstance(block, Code):
        return Lines(*(Unbroken(line) for line in block.lines))
    assert isinstance(block, Diff)
    return Styled(block.text)


def _command(command: Command) -> Iterator[RenderableType]:
    if command.lead:
        yield Styled(command.lead, style=STYLES[Tone.DIM])
    yield Unbroken(f"$ {command.text}", "cyan")


_NUMBER = 3
"""Columns of the number of a step."""


def _step(number: int, step: Step) -> Iterator[RenderableType]:
    text = prose(step.text, STYLES[Tone.STRONG])
    if step.gain:
        text.append(": ").append(step.gain, style=STYLES[Tone.GOOD])
    head = names_and_texts(_NUMBER, gap=0)
    head.add_row(Styled(f"{number}. ", style=STYLES[Tone.STRONG]), text)
    yield head
    yield from (Indented(part, _NUMBER) for part in _of_step(step))


def _of_step(step: Step) -> Iterator[RenderableType]:
    """What stands below the text of a step."""
    if step.unlocks:
        yield prose(step.unlocks)
    if step.position:
        yield Styled(step.position, style=STYLES[Tone.DIM])
    for line in step.diff.split("\n") if step.diff else ():
        yield Unbroken(line, STYLES[Tone.BAD if line.startswith("-") else Tone.GOOD])
    if step.note:
        yield prose(step.note, STYLES[Tone.DIM])
    for line in step.code.split("\n") if step.code else ():
        yield Unbroken(line, STYLES[Tone.GOOD])
    if step.command is not None:
        yield from _command(step.command)


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
    left_out = table.left_out
    if table.on_terminal is not None and len(table.rows) > table.on_terminal:
        left_out += len(table.rows) - table.on_terminal
        table = replace(table, rows=table.rows[: table.on_terminal])
    if any(row.narrow is not None for row in table.rows):
        parts += _sentences(table.rows)
    else:
        parts.append(_grid(table, width))
    return Lines(*parts, *_left_out(left_out))


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
            grid.add_row(*(_cell(table, row, number, intervals) for number in kept))
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


def _cell(table: Table, row: Row, number: int, intervals: bool) -> Styled:
    return Styled(_text(table, row, number, intervals), style=STYLES[tone_of(row.cells[number])])


def _text(table: Table, row: Row, number: int, intervals: bool) -> str:
    """The cell; of what has an interval, ratios show it, and durations where the column has their spread."""
    cell = row.cells[number]
    if isinstance(cell, Gauge):
        return bar(cell.share, _GAUGE)
    text, limits = written(cell, TERMINAL), interval_of(cell)
    shown = isinstance(cell, Factor) or (isinstance(cell, Millis) and table.columns[number].spread)
    return f"{text} ({limits})" if intervals and shown and limits else text


def fitting(table: Table, width: int) -> list[int]:
    """The numbers of the columns that ``width`` has room for; a column of which nothing is known is left out,
    and one that counts what never happened."""
    kept = []
    for number, column in enumerate(table.columns):
        always = column.wanted == 0 and not column.optional
        if always or not all(_is_empty(row.cells[number]) for row in table.rows):
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
    return written(cell, TERMINAL) in ("", TERMINAL.unknown)


def _needed(table: Table, kept: Sequence[int], intervals: bool) -> int:
    return sum(_width(table, number, intervals) + _GAP for number in kept) - _GAP


def _width(table: Table, number: int, intervals: bool) -> int:
    heads = [cell_len(line) for line in _head(table.columns[number]).split("\n")]
    return max(heads + [cell_len(_text(table, row, number, intervals)) for row in table.rows])


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
