"""``fusiondoc explain``: the pages on finding codes, and the glossary."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusiondoc.cli.output import complete_codes, print_result
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.numbers import whole_number

if TYPE_CHECKING:
    from fusiondoc.model.finding_code import Code

_CLASSES = {
    "FD0": "Environment and knobs",
    "FD1": "Nothing to fuse yet",
    "FD2": "Operator not fused",
    "FD3": "Fallback, guard and crash",
    "FD4": "Kernel speed",
    "FD5": "Whole-model speed and numbers",
    "FD9": "The log itself",
}


@click.command("explain")
@click.argument(
    "codes", nargs=-1, metavar="[CODE]...", shell_complete=complete_codes
)
@click.option(
    "--glossary",
    is_flag=True,
    help="Print the glossary instead; with words for CODE, only their entries.",
)
def command(codes: tuple[str, ...], glossary: bool) -> None:
    """Print the page of a finding code, or the recipes for an operator; without one, list all codes.

    \b
    Examples:
      fusiondoc explain
      fusiondoc explain FD201
      fusiondoc explain hardswish
      fusiondoc explain --glossary guard
    """
    from fusiondoc.model.codes import CODES

    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    if glossary:
        print_result(reflow(glossary_page(codes).rstrip(), width))
        return
    if codes:
        # Read all pages before the first is printed, so that a misspelled code
        # prints nothing else.
        pages = [reflow(page(code).rstrip(), width) for code in codes]
        print_result("\n\n".join(pages))
        return
    print_result(_list(CODES.values(), width), nl=False)


def _list(codes: Iterable[Code], width: int) -> str:
    """All codes with severity and title, in a table for each class."""
    from rich.console import Group, RenderableType
    from rich.table import Table

    from fusiondoc.model.report import SEVERITIES
    from fusiondoc.rendering.drawing import Indented, drawn

    shown: list[RenderableType] = []
    for family, members in groupby(codes, key=lambda code: code.code[:3]):
        table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, min_width=max(map(len, SEVERITIES)))
        table.add_column(overflow="fold")
        for code in members:
            table.add_row(code.code, code.severity, code.title)
        shown += [*([""] if shown else []), _CLASSES[family], Indented(table, 2)]
    return drawn(Group(*shown), width, colour=False)


_MARK = re.compile(r" {0,3}(?:[*-]|\d+\.) ")
_CODE_SPAN = re.compile(r"`[^`]+`")
_HELD = "\0"
"""Placeholder for a space that is not a line break: in short code."""
_SHORT = 40


def reflow(markdown: str, width: int) -> str:
    """Wrap the paragraphs and list items of a page at ``width`` columns; all other
    lines are unchanged."""
    lines: list[str] = []
    paragraph: list[str] = []
    for line in [*markdown.split("\n"), ""]:
        own = not paragraph and line.startswith("    ")
        if (
            not line.strip()
            or own
            or line.startswith(("#", "|"))
            or _MARK.match(line)
        ):
            lines += _wrapped(paragraph, width)
            paragraph = []
        if not line.strip() or own or line.startswith(("#", "|")):
            lines.append(line)
        else:
            paragraph.append(line)
    return "\n".join(lines[:-1])


def _hold(span: re.Match[str]) -> str:
    if len(span.group()) <= _SHORT:
        return span.group().replace(" ", _HELD)
    return span.group()


def _wrapped(paragraph: list[str], width: int) -> list[str]:
    if not paragraph:
        return []
    first = paragraph[0]
    mark = _MARK.match(first)
    start = mark.group() if mark else first[: len(first) - len(first.lstrip())]
    text = " ".join(
        [first[len(start) :], *(line.strip() for line in paragraph[1:])]
    )
    text = _CODE_SPAN.sub(_hold, text)
    wrapped = textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_HELD, " ") for line in wrapped]


PAGES = Path(__file__).resolve().parents[1] / "diagnosis" / "pages"


def page(code: str) -> str:
    """The Markdown page of a code, or of the recipes for an operator, written in
    any case.

    Raises UsageError if it is neither.
    """
    from fusiondoc.model.codes import CODES

    name = code.strip().upper()
    if name not in CODES:
        from fusiondoc.diagnosis.recipe_pages import recipe_page

        recipe = recipe_page(code)
        if recipe is not None:
            return recipe
        raise UsageError(
            f"no such finding code: {code}. {_nearest(name)}",
            "fusiondoc explain lists all codes.",
        )
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def glossary_page(terms: Sequence[str] = ()) -> str:
    """The glossary as Markdown, or the entries of ``terms`` alone, written in any
    case.

    Raises UsageError for an unknown term.
    """
    text = (PAGES / "glossary.md").read_text(encoding="utf-8")
    if not terms:
        return text
    entries = {}
    for entry in text.split("\n## ")[1:]:
        entries[entry.split("\n", 1)[0].lower()] = f"## {entry.strip()}"
    for term in terms:
        if term.strip().lower() not in entries:
            raise UsageError(
                f"the glossary has no entry '{term}'. {did_you_mean(term.strip().lower(), entries)}",
                "fusiondoc explain --glossary prints all of it.",
            )
    return "\n\n".join(entries[term.strip().lower()] for term in terms) + "\n"


def _nearest(name: str) -> str:
    from fusiondoc.model.codes import CODES

    digits = name[2:] if name.startswith("FD") else name
    meant = f"FD{whole_number(digits) or 0:03d}"
    if meant in CODES:
        return f"Did you mean '{meant}'?"
    return did_you_mean(name, CODES)
