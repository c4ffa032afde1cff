"""Documents as GitHub-flavoured Markdown, for a comment on a pull request: every
word is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fusiondoc.rendering.blocks import (
    Block,
    ChangeList,
    CodeBlock,
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
    Section,
    Sentences,
    Table,
    shown,
)
from fusiondoc.rendering.cells import interval_of, known_columns, written
from fusiondoc.rendering.printable import markdown, markdown_code, one_line, visible
from fusiondoc.rendering.units import PAGE
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    Duration,
    Extents,
    Factor,
    Megabytes,
    Micros,
    Millis,
    Named,
    Rate,
    Seconds,
    ShownPosition,
    ShownPositions,
    ShownReason,
    Snippet,
)

LIMIT = 65_536
"""Most characters of a comment on GitHub."""
_LONGEST = 400
"""Most characters of a name or message before they are escaped; those of a real log
are shorter."""


def render(document: Document) -> str:
    """Return the document; rows without room in a comment are left out, and a line
    states their number."""
    sections = shown(document.sections, Formats.MARKDOWN)
    room = LIMIT // (2 + len(sections))
    lines = [
        f"### fusiondoc: {escaped(document.verdict)}",
        "",
        f"**{escaped(document.name)}**",
        "",
    ]
    if document.warning:
        lines += [f"**{escaped(document.warning)}.**", ""]
    if document.lead:
        lines += [escaped(document.lead), ""]
    for section in sections:
        lines += _section(section, room)
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """Return the text escaped, with limited length."""
    return markdown(_cut(text))


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 1] + "…"


def _section(section: Section, room: int) -> Iterator[str]:
    yield from (f"**{escaped(section.title)}**", "")
    if section.note:
        yield from (escaped(section.note), "")
    yield from blocks_of(section, room)


def folded_section(
    section: Section, room: int, is_open: bool = False
) -> Iterator[str]:
    """Yield the section in at most ``room`` characters, folded so that a click
    opens or closes it."""
    rows = sum(len(getattr(block, "rows", ())) for block in section.blocks)
    start = "<details open>" if is_open else "<details>"
    yield f"{start}<summary><b>{escaped(section.title)}</b> ({rows:,})</summary>\n"
    yield from blocks_of(section, room // len(section.blocks))
    yield "\n</details>\n"


def blocks_of(section: Section, room: int) -> Iterator[str]:
    """Yield the blocks of a section one below the other, each in at most ``room``
    characters."""
    for block in section.blocks:
        yield from _block(block, room)
        yield ""


def _block(block: Block, room: int) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block, room)
    elif isinstance(block, (NamedValues, Remarks, Items, Entries)):
        left_out = block.left_out if isinstance(block, (Items, Entries)) else 0
        yield from _list(_list_lines(block), room, left_out)
    else:
        yield from _WRITTEN[type(block)](block)


def _list_lines(block: NamedValues | Remarks | Items | Entries) -> list[str]:
    if isinstance(block, Entries):
        lines = []
        for entry in block.rows:
            lines.append(f"- **{escaped(entry.tag)}** {escaped(entry.title)}")
        return lines
    if isinstance(block, NamedValues):
        return [f"- {escaped(name)}: {_value(value)}" for name, value in block.rows]
    if isinstance(block, Remarks):
        return [f"- {escaped(line)}" for line in block.lines]
    lines = []
    for item in block.rows:
        lines.extend(item_lines(item))
    return lines


def _value(value: str | Cell) -> str:
    if isinstance(value, str):
        return escaped(value)
    return _cell(value)


def _sentences(sentences: Sentences) -> Iterator[str]:
    yield "\n\n".join(
        markdown(line[:_LONGEST_SENTENCE]) for line in sentences.lines
    )


def _heading(heading: Heading) -> Iterator[str]:
    yield f"**{escaped(heading.text)}**"


def _commands(command: Command) -> Iterator[str]:
    yield _command(command)


def _steps(steps: ChangeList) -> Iterator[str]:
    for number, step in enumerate(steps.rows, 1):
        for line in _step(number, step):
            yield line[:_LONGEST_OF_A_STEP]


def _diff(diff: Diff) -> Iterator[str]:
    return _fenced(diff.text, "diff")


def _code(code: CodeBlock) -> Iterator[str]:
    return _fenced(code.text)


def _command(command: Command) -> str:
    return f"{markdown(command.lead)} {markdown_code(command.text)}".lstrip()


_LONGEST_OF_A_STEP = 1_000
"""Most characters of a line."""
_LONGEST_SENTENCE = 1_000


def _step(number: int, step: ListedChange) -> Iterator[str]:
    """Yield an entry of a numbered list."""
    where = f" ({markdown_code(step.position)})" if step.position else ""
    yield f"{number}. **{markdown(step.text)}**{where}" + (
        f": {markdown(step.gain)}" if step.gain else ""
    )
    for text in (step.unlocks, step.proof, step.note):
        if text:
            yield f"   {markdown(text)}"
    for text, language in ((step.diff, "diff"), (step.code, "python")):
        if text:
            rows = []
            for row in text.split("\n"):
                rows.append(one_line(row).replace("```", "`` `"))
            for row in (f"```{language}", *rows, "```"):
                yield f"   {row}"
    if step.command is not None:
        yield f"   {_command(step.command)}"


_WRITTEN: dict[type, Callable[[Any], Iterator[str]]] = {
    Sentences: _sentences,
    Heading: _heading,
    ChangeList: _steps,
    Command: _commands,
    Diff: _diff,
    CodeBlock: _code,
}
"""The function that writes each block that is no list of rows."""


def _table(table: Table, room: int) -> Iterator[str]:
    table = known_columns(table)
    above = any(row.above is not None for row in table.rows)
    heads = [column.head for column in table.columns]
    marks = ["--:" if column.number else "---" for column in table.columns]
    if table.title:
        yield from (
            f"{escaped(table.title)}"
            + (f" ({escaped(table.note)})" if table.note else ""),
            "",
        )
    yield _line(["", *heads] if above else heads)
    yield "|" + "|".join(["---", *marks] if above else marks) + "|"
    rows = []
    of = ""
    for row in table.rows:
        if row.above is not None:
            if isinstance(row.above, str):
                of = row.above
            else:
                of = written(row.above, PAGE)
        cells = [_cell(cell) for cell in row.cells]
        rows.append(_line([escaped(of), *cells] if above else cells))
    fitted = _fitting(rows, room)
    yield from fitted
    left = len(rows) - len(fitted) + table.left_out
    if left:
        yield from ("", f"{left:,} more rows: `--format json` has all")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


_FIGURES = (
    Bytes,
    Count,
    Extents,
    Duration,
    Factor,
    Megabytes,
    Micros,
    Millis,
    Rate,
    Seconds,
)
"""Cells whose text contains no markup."""
_MOST_POSITIONS = 3
"""Most source positions in one cell."""


def _span(text: str) -> str:
    """Return code on one line, shortened if it is long; "" for an empty text."""
    if text:
        return markdown_code(_cut(text))
    return ""


def _cell(cell: Cell) -> str:
    match cell:
        case Named(identifier, name):
            return f"{escaped(identifier)} {markdown_code(_cut(name))}"
        case Snippet(text):
            return _span(text)
        case ShownPosition(where):
            return _span(where)
        case ShownPositions(positions):
            spans = []
            for position in positions[:_MOST_POSITIONS]:
                spans.append(_span(position.where))
            return ", ".join(spans) + (
                " …" if len(positions) > _MOST_POSITIONS else ""
            )
        case ShownReason(code, text, stated):
            return f"**{escaped(code)}** {escaped(text)}" + (
                "" if stated else " (worked out)"
            )
    limits = interval_of(cell)
    if isinstance(cell, _FIGURES):
        text = written(cell, PAGE)
    else:
        text = escaped(written(cell, PAGE))
    if limits:
        return f"{text} ({limits})"
    return text


def item_lines(item: Item) -> Iterator[str]:
    """Yield an entry of a list, and its details below it. ASCII signs are for
    terminals only; a Markdown list has its own."""
    parts = []
    for mark in item.marks:
        if not mark.sign.isascii():
            parts.append(f"{mark.sign} ")
    pictures = "".join(parts)
    words = " and ".join(mark.word for mark in item.marks)
    head = f"{pictures}**{escaped(words)}** " if words else ""
    where = f" at {markdown_code(_cut(item.position))}" if item.position else ""
    yield f"- {head}{escaped(item.text)}{where}"
    for text in item.details:
        yield f"  - {escaped(text)}"


def _list(rows: Sequence[str], room: int, left_out: int = 0) -> Iterator[str]:
    fitted = _fitting(rows, room)
    yield from fitted
    left = len(rows) - len(fitted) + left_out
    if left:
        yield f"- ... {left:,} more lines: `--format json` has all"


def _fitting(rows: Sequence[str], room: int) -> list[str]:
    """Return the first rows that fit into ``room`` characters."""
    fitted: list[str] = []
    for row in rows:
        room -= len(row) + 3
        if room < 0:
            break
        fitted.append(row)
    return fitted


def _fenced(text: str, language: str = "") -> Iterator[str]:
    """Yield a fenced text; no line of the text can end the fence."""
    text = visible(text)
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, 1 + longest)
    yield from (f"{fence}{language}", text.rstrip("\n"), fence)
