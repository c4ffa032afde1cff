"""The parts of all text on a terminal: styles, small tables, bars, links and plain
ASCII."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fusiondoc.numbers import whole_number
from fusiondoc.rendering.printable import no_workflow_commands, visible
from fusiondoc.rendering.timelines import LEVELS, UNKNOWN_LEVEL

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}

MOST_ROWS = 40
"""Most rows of a table on a terminal; the JSON report has all."""


class Detail(Enum):
    """How much of the report is printed; the values are options."""

    VERDICT = "-q"
    """The last line alone."""
    SUMMARY = "--summary"
    """The first screen."""
    USUAL = ""
    ALL = "-v"
    """Every row and every finding."""


_KEPT = "\ue000"
"""Placeholder for a space at which no line is broken; ``drawn`` replaces it with a
space."""

_COMMAND_WORDS = re.compile(
    r"fusiondoc (?:explain [\w:]+|[a-z]+(?: (?:--?[\w-]+|FD\d{3}|[A-Z][A-Z_]+|\S*[./=:]\S*\w))*)"
    r"|--knob [\w=.:]+"
)
"""A command in a sentence, up to the next plain words."""

_VARIABLE = re.compile(r"[A-Z]+_[A-Z_]+=.")


def prose(text: str, style: str = "") -> Text:
    """Return a text whose lines are broken at its spaces, but not inside a command
    to copy."""
    return Text(
        _COMMAND_WORDS.sub(lambda found: found.group().replace(" ", _KEPT), text),
        style=style,
    )


class WithVariables:
    """Prose that may contain variables with their values, to copy: one that is
    longer than a line is not broken, and is on a line of its own. Only for the top
    level of the drawn content, or inside ``Indented``."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        text = prose(self._text)
        if not any(_VARIABLE.match(word) for word in text.plain.split()):
            yield text
            return
        plain: list[str] = []
        for word in text.plain.split():
            if _VARIABLE.match(word) and cell_len(word) > options.max_width:
                if plain:
                    yield Text(" ".join(plain))
                yield Unbroken(word)
                plain = []
            else:
                plain.append(word)
        if plain:
            yield Text(" ".join(plain))


class Unbroken:
    """A line to copy: it is never broken, however long it is. Only for the top
    level of the drawn content, or inside ``Indented``."""

    def __init__(self, line: str, style: str = "") -> None:
        self._line, self._style = line, style

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        yield Segment(self._line, console.get_style(self._style or "none"))
        yield Segment.line()


class Indented:
    """Content that is moved to the right; its lines that are never broken stay
    unbroken."""

    def __init__(self, content: RenderableType, by: int = 1) -> None:
        self._content, self._by = content, by

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        inner = options.update(width=max(1, options.max_width - self._by))
        for line in Segment.split_lines(console.render(self._content, inner)):
            if any(segment.text for segment in line):
                yield Segment(" " * self._by)
            yield from line
            yield Segment.line()


def fields() -> Table:
    """Return an empty table of names and values."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def names_and_texts(width: int, gap: int = 2) -> Table:
    """Return an empty table of names of ``width`` columns and texts that wrap
    beside them."""
    table = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, width=width)
    table.add_column(overflow="fold")
    return table


def rows_of_lines(rows: Sequence[Sequence[str]], gap: int = 2) -> str:
    """Return a line for each row, however long it is, with aligned columns, so that
    other programs can read it too."""
    table = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
    for _ in rows[0]:
        table.add_column(no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    longest = []
    for column in zip(*rows):
        longest.append(max(cell_len(cell) + gap for cell in column))
    return drawn(table, sum(longest), colour=False)


def more(total: int) -> list[RenderableType]:
    """Return a line on the number of rows that are not shown."""
    if total <= MOST_ROWS:
        return []
    return [
        Text(f"... {total - MOST_ROWS} more: --format json has all", style="dim")
    ]


def drawn(content: RenderableType, width: int, colour: bool) -> str:
    """Return ``content`` as text of at most ``width`` columns, with ANSI colours if
    ``colour``. Nothing in it is a command to a terminal or to the runner of GitHub
    Actions."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    console.print(_Visible(content), crop=False)
    return no_workflow_commands(
        "\n".join(line.rstrip() for line in out.getvalue().split("\n"))
    )


class _Visible:
    """Content whose hidden characters become escapes; styles are added afterwards,
    as ANSI codes."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        for segment in console.render(self._content, options):
            if segment.control:
                yield segment
            else:
                yield (
                    Segment(
                        visible(segment.text).replace(_KEPT, " "), segment.style
                    )
                )


_FULL, _EMPTY = "█", "░"

_PLAIN = str.maketrans(
    {
        **dict(zip(LEVELS, "_.-=+*%#")),
        _EMPTY: ".",
        UNKNOWN_LEVEL: " ",
        "…": "~",
        "→": ">",
        "×": "x",
    }
)


def bar(share: float, width: int = 8) -> str:
    """Return ``share`` as a bar (above 1 as a full one); any share above 0 has at
    least one block."""
    filled = min(width, round(share * width))
    if share > 0:
        filled = max(1, filled)
    return _FULL * filled + _EMPTY * (width - filled)


def sparkline(values: Sequence[float], most: int = 24) -> str:
    """Return a character for each value, its height by the logarithm, since a
    compilation takes a thousand times as long as a pass. Of more than ``most``
    values the first ones are shown, with an ellipsis."""
    from math import log

    shown = [value for value in values[:most] if value > 0]
    if len(shown) < 2:
        return ""
    low, high = log(min(shown)), log(max(shown))
    # Below a factor of 1.5 everything is noise: a flat line.
    span = max(high - low, log(1.5))
    marks = []
    for value in shown:
        marks.append(
            LEVELS[int((log(value) - low) / span * (len(LEVELS) - 1) + 0.5)]
        )
    return "".join(marks) + ("…" if len(values) > most else "")


def plain(text: str) -> str:
    """Return the text with blocks, arrows and ellipses replaced by ASCII
    characters, one for one."""
    return text.translate(_PLAIN)


def can_show_blocks(encoding: str | None) -> bool:
    """True if text in this encoding can hold the block characters."""
    try:
        (LEVELS + _EMPTY + "…→×").encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


_PAGES = Path(__file__).resolve().parents[1] / "diagnosis" / "pages"

_CODE = re.compile(r"\bFD\d{3}\b")


def linked(text: str) -> str:
    """Return the text with every code of a finding as a link to its page, in the
    form for terminals (OSC 8)."""

    def link(found: re.Match[str]) -> str:
        page = _PAGES / f"{found.group()}.md"
        if not page.exists():
            return found.group()
        return f"\x1b]8;;{page.as_uri()}\x1b\\{found.group()}\x1b]8;;\x1b\\"

    return _CODE.sub(link, text)


_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "Hyper", "ghostty", "Tabby", "rio")
_TERMS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour")


def can_link(environment: Mapping[str, str]) -> bool:
    """True if the terminal is known to show links, or ``FORCE_HYPERLINK`` requests
    them."""
    if "NO_COLOR" in environment or environment.get("TERM") == "dumb":
        return False
    if "FORCE_HYPERLINK" in environment:
        return environment["FORCE_HYPERLINK"] not in ("", "0")
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in _PROGRAMS
        or environment.get("TERM", "").startswith(_TERMS)
        or any(
            name in environment
            for name in ("WT_SESSION", "KONSOLE_VERSION", "KITTY_WINDOW_ID")
        )
        or (whole_number(vte) or 0) >= 5000
    )
