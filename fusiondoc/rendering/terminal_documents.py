"""Documents on a terminal: sections one below the other, tables that fit into its
width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.console import Group as Lines
from rich.console import JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Styled

from fusiondoc.rendering.blocks import (
    Block,
    ChangeList,
    CodeBlock,
    Column,
    Command,
    Diff,
    Document,
    Entries,
    Formats,
    Heading,
    Item,
    Items,
    ListedChange,
    NamedValues,
    Remarks,
    Row,
    Section,
    Sentences,
    Table,
    shown,
    shown_blocks,
)
from fusiondoc.rendering.cells import (
    interval_of,
    is_empty,
    known_columns,
    tone_of,
    written,
)
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
from fusiondoc.rendering.units import TERMINAL, short_percent
from fusiondoc.rendering.values import (
    Cell,
    Factor,
    Gauge,
    IdLinks,
    Millis,
    Share,
    ShownReason,
    Tone,
)

STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.DIM: "dim",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.DOUBTFUL: "yellow",
    Tone.NOTE: "cyan",
}
_GAP, _DENSE_GAP = 2, 1
_GAUGE, _DENSE_GAUGE = 20, 8
"""Characters of a bar in a table."""
_LONGEST_HEAD = 8
"""A longer head of figures continues in a second line, after a hyphen."""


def render(
    document: Document,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """Return the document as text of at most ``width`` columns, with ANSI colours
    if ``colour``.

    Args:
        blocks: True if arrows and block characters can be shown; else they are
            plain ASCII.
    """
    document = visible_in(document)
    warning = []
    if document.warning:
        warning = [Styled(document.warning, style=STYLES[Tone.BAD])]
    parts: list[RenderableType] = [*warning, head(NamedValues(document.facts))]
    parts += sections(document.sections, width)
    parts += ["", Styled(document.verdict, style="bold")]
    text = drawn(Lines(*parts), width, colour)
    if blocks:
        return text
    return plain(text)


def head(facts: NamedValues) -> RenderableType:
    """The first lines of a document: names and values."""
    table = fields()
    for name, value in facts.rows:
        table.add_row(name, _value(value))
    return table


def sections(these: Sequence[Section], width: int) -> Iterator[RenderableType]:
    """Yield the sections that a terminal shows, each after an empty line, in
    ``width`` columns."""
    for section in shown(these, Formats.TERMINAL):
        yield from _section(section, width)


def _section(section: Section, width: int) -> Iterator[RenderableType]:
    title = Styled(section.title, style="bold")
    if section.note:
        title.append(f"  {section.note}", style="not bold dim")
    yield from ("", title)
    before: Block | None = None
    for block in section.blocks:
        if (
            isinstance(before, Table)
            and isinstance(block, Table)
            and not block.title
        ):
            yield ""
        yield Indented(drawn_block(block, width - 1))
        before = block


def drawn_block(block: Block, width: int) -> RenderableType:
    """A block in at most ``width`` columns."""
    if isinstance(block, Table):
        return _table(block, width)
    if isinstance(block, Entries):
        return Lines(*_entries(block, width))
    if isinstance(block, Items):
        return Lines(*_items(block, width))
    return Lines(*_DRAWN[type(block)](block))


def _command(command: Command) -> Iterator[RenderableType]:
    if command.lead:
        yield Styled(command.lead, style=STYLES[Tone.DIM])
    yield Unbroken(f"$ {command.text}", "cyan")


_NUMBER = 3
"""Columns for the number of a step."""


def _step(number: int, step: ListedChange) -> Iterator[RenderableType]:
    text = prose(step.text, STYLES[Tone.STRONG])
    if step.gain:
        text.append(": ").append(step.gain, style=STYLES[Tone.GOOD])
    head = names_and_texts(_NUMBER, gap=0)
    head.add_row(Styled(f"{number}. ", style=STYLES[Tone.STRONG]), text)
    yield head
    for part in _of_step(step):
        yield Indented(part, _NUMBER)


def _of_step(step: ListedChange) -> Iterator[RenderableType]:
    """Yield the lines below the text of a step."""
    if step.unlocks:
        yield prose(step.unlocks)
    if step.proof:
        yield prose(step.proof, STYLES[Tone.GOOD])
    if step.position:
        yield Styled(step.position, style=STYLES[Tone.DIM])
    for line in step.diff.split("\n") if step.diff else ():
        yield Unbroken(
            line, STYLES[Tone.BAD if line.startswith("-") else Tone.GOOD]
        )
    if step.note:
        yield prose(step.note, STYLES[Tone.DIM])
    for line in step.code.split("\n") if step.code else ():
        yield Unbroken(line, STYLES[Tone.GOOD])
    if step.command is not None:
        yield from _command(step.command)


def _facts(facts: NamedValues) -> Iterator[RenderableType]:
    table = names_and_texts(
        max((cell_len(name) for name, _ in facts.rows), default=0)
    )
    for name, value in facts.rows:
        table.add_row(name, _value(value))
    yield table


def _value(value: str | Cell) -> Styled:
    if isinstance(value, str):
        return Styled(value)
    return Styled(written(value, TERMINAL), style=STYLES[tone_of(value)])


def _items(items: Items, width: int) -> Iterator[RenderableType]:
    for item in items.rows[: items.on_terminal]:
        yield _item(item, width)
    if items.on_terminal is None:
        more = 0
    else:
        more = max(0, len(items.rows) - items.on_terminal)
    yield from _left_out(items.left_out + more)


def _entries(entries: Entries, width: int) -> Iterator[RenderableType]:
    for entry in entries.rows:
        line = Styled(entry.tag, style="bold green")
        line.append(f"  {entry.title}", style="default")
        if entry.note:
            line.append(f"  {entry.note}", style=STYLES[Tone.DIM])
        for mark in entry.marks:
            line.append(f"  {mark.word.upper()}", style=STYLES[mark.tone])
        yield line
        for inner in shown_blocks(entry.blocks, Formats.TERMINAL):
            yield Indented(drawn_block(inner, width - _GAP), _GAP)
        if entry.remark:
            yield Padding(
                Styled(entry.remark, style=STYLES[Tone.DIM]), (0, 0, 0, _GAP)
            )
    yield from _left_out(entries.left_out)


def _remarks(remarks: Remarks) -> Iterator[RenderableType]:
    return (prose(f"→ {line}") for line in remarks.lines)


def _heading(heading: Heading) -> Iterator[RenderableType]:
    yield Styled(heading.text, style=STYLES[Tone.STRONG])


def _lines(sentences: Sentences) -> Iterator[RenderableType]:
    return (prose(line, STYLES[sentences.tone]) for line in sentences.lines)


def _steps(steps: ChangeList) -> Iterator[RenderableType]:
    for number, step in enumerate(steps.rows, steps.first):
        yield from _step(number, step)


def _code(code: CodeBlock) -> Iterator[RenderableType]:
    return map(Unbroken, code.text.splitlines())


def _diff(diff: Diff) -> Iterator[RenderableType]:
    yield Styled(diff.text)


_DRAWN: dict[type, Callable[[Any], Iterator[RenderableType]]] = {
    NamedValues: _facts,
    Remarks: _remarks,
    Heading: _heading,
    Sentences: _lines,
    ChangeList: _steps,
    Command: _command,
    CodeBlock: _code,
    Diff: _diff,
}
"""The function that draws each block whose parts need no width."""


def on_terminal(table: Table) -> Table:
    """Return the table with the columns that a terminal may show."""
    (shown_table,) = shown_blocks((table,), Formats.TERMINAL)
    assert isinstance(shown_table, Table)
    return known_columns(shown_table)


def _table(table: Table, width: int) -> RenderableType:
    table = known_columns(table)
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
    elif table.bare:
        parts += _bare(table, width)
    else:
        parts.append(_grid(table, width))
    return Lines(*parts, *_left_out(left_out))


def _sentences(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """Yield each row as a title with a sentence below it."""
    for row in rows:
        if row.narrow is not None:
            title, sentence = row.narrow
            yield Styled(title)
            yield Padding(Styled(sentence, style="dim"), (0, 0, 0, 2))


def _grid(table: Table, width: int) -> RenderableType:
    """Return the heads, then the rows below the lines above them; each column has
    one width throughout."""
    kept = fitting(table, width)
    intervals = _needed(table, kept, intervals=True) <= width
    heads = _columns(table, kept, width, intervals)
    heads.add_row(
        *(Styled(_head(table.columns[number]), style="dim") for number in kept)
    )
    parts: list[RenderableType] = [heads]
    for above, rows in groupby(table.rows, key=lambda row: row.above):
        grid = heads
        if above is not None:
            grid = _columns(table, kept, width, intervals)
            parts += [_above(above), grid]
        for row in rows:
            grid.add_row(*(_cell(table, row, number, intervals) for number in kept))
    return Lines(*parts)


def _above(above: str | ShownReason) -> Styled:
    if isinstance(above, str):
        return Styled(above, style=STYLES[Tone.DIM])
    line = Styled(
        above.code, style=STYLES[Tone.DOUBTFUL if above.stated else Tone.DIM]
    )
    return line.append(f" {above.text}", style="default")


_LEAST_CUT = 12
"""Least room in which the start of a text is still shown."""


def _bare(table: Table, width: int) -> Iterator[RenderableType]:
    """Yield the rows without heads; the columns of the rows below one line have
    their own widths."""
    for above, rows in groupby(table.rows, key=lambda row: row.above):
        inner = replace(table, rows=tuple(rows))
        if above is None:
            yield _bare_grid(inner, width)
        else:
            yield _above(above)
            yield Padding(_bare_grid(inner, width - _GAP), (0, 0, 0, _GAP))


def _bare_grid(table: Table, width: int) -> Grid:
    kept = []
    for number, column in enumerate(table.columns):
        if not column.cut:
            kept.append(number)
    left = width - _needed(table, kept, intervals=False) - _GAP
    grid = Grid.grid(padding=(0, _GAP), pad_edge=False)
    for number, column in enumerate(table.columns):
        grid.add_column(no_wrap=column.cut or not number, overflow="fold")
    last: list[str] = []
    for row in table.rows:
        texts = []
        for number in range(len(table.columns)):
            texts.append(_text(table, row, number, intervals=False))
        shown_texts = []
        for number, text in enumerate(texts):
            repeats = number > 0 and texts[number:] == last[number:]
            text = _start(text, left) if table.columns[number].cut else text
            style = STYLES[tone_of(row.cells[number])]
            shown_texts.append(Styled("" if repeats else text, style=style))
        grid.add_row(*shown_texts)
        last = texts
    return grid


def _start(text: str, room: int) -> str:
    """Return as much of the text as there is room for."""
    if cell_len(text) <= room:
        return text
    if room > _LEAST_CUT:
        return text[: room - 1] + "…"
    return ""


def _columns(
    table: Table, kept: Sequence[int], width: int, intervals: bool
) -> Grid:
    """Return a grid without rows. Words are cut if there is no room; figures never
    are."""
    fits = _needed(table, kept, intervals) <= width
    grid = Grid(
        box=None, padding=(0, _gap(table), 0, 0), pad_edge=False, show_header=False
    )
    for number in kept:
        is_number = table.columns[number].number
        justify: JustifyMethod = "right" if is_number else "left"
        least = _width(table, number, intervals) if is_number or fits else None
        grid.add_column(
            justify=justify, overflow="fold", no_wrap=is_number, min_width=least
        )
    return grid


def _head(column: Column) -> str:
    if column.number and len(column.head) > _LONGEST_HEAD:
        return column.head.replace("-", "-\n")
    return column.head


def _cell(table: Table, row: Row, number: int, intervals: bool) -> Styled:
    return Styled(
        _text(table, row, number, intervals),
        style=STYLES[tone_of(row.cells[number])],
    )


def _text(table: Table, row: Row, number: int, intervals: bool) -> str:
    """Return the text of a cell; ratios have their interval, and durations if the
    column has ``spread``."""
    cell = row.cells[number]
    if isinstance(cell, Gauge):
        return bar(cell.share, _DENSE_GAUGE if table.dense else _GAUGE)
    if table.dense and isinstance(cell, Share):
        return TERMINAL.known(cell.share, short_percent)
    if table.dense and isinstance(cell, IdLinks):
        return written(cell, TERMINAL).replace(", ", ",")
    text, limits = written(cell, TERMINAL), interval_of(cell)
    shown = isinstance(cell, Factor) or (
        isinstance(cell, Millis) and table.columns[number].spread
    )
    if intervals and shown and limits:
        return f"{text} ({limits})"
    return text


def fitting(table: Table, width: int) -> list[int]:
    """Return the numbers of the columns that ``width`` has room for; a column that
    can be left out is left out if it is empty."""
    kept = []
    for number, column in enumerate(table.columns):
        if not column.wanted or not all(
            is_empty(row.cells[number]) for row in table.rows
        ):
            kept.append(number)
    while _needed(table, kept, intervals=True) > width:
        droppable = [number for number in kept if table.columns[number].wanted]
        if not droppable:
            break
        kept.remove(min(droppable, key=lambda number: table.columns[number].wanted))
    return kept


def _needed(table: Table, kept: Sequence[int], intervals: bool) -> int:
    gap = _gap(table)
    return sum(_width(table, number, intervals) + gap for number in kept) - gap


def _gap(table: Table) -> int:
    if table.dense:
        return _DENSE_GAP
    return _GAP


def _width(table: Table, number: int, intervals: bool) -> int:
    texts = [] if table.bare else _head(table.columns[number]).split("\n")
    for row in table.rows:
        texts += _text(table, row, number, intervals).split("\n")
    return max(map(cell_len, texts), default=0)


def _item(item: Item, width: int) -> RenderableType:
    """Return an item with its position behind it if there is room on the line, else
    below it."""
    line = Styled()
    for mark in item.marks:
        sign = mark.sign if mark.sign.isascii() else ""
        line.append(f"{sign or mark.word} ", style=STYLES[mark.tone])
    line.append(item.text)
    below: list[RenderableType] = []
    if item.position:
        position = Styled(item.position, style=STYLES[Tone.DIM])
        if cell_len(line.plain) + _GAP + cell_len(item.position) <= width:
            line.append("  ").append_text(position)
        else:
            below.append(position)
    below += map(WithVariables, item.details)
    return Lines(line, *(Indented(part, _GAP) for part in below))


def _left_out(number: int) -> list[RenderableType]:
    if number > 0:
        return [Styled(f"... {number:,} more: --format json has all", style="dim")]
    return []
