"""Markdown pages on a terminal: paragraphs and list items wrapped to its width, all else as it is written."""

from __future__ import annotations

import re
import textwrap

_MARK = re.compile(r" {0,3}(?:[*-]|\d+\.) ")
_CODE_SPAN = re.compile(r"`[^`]+`")
_HELD = "\0"
"""Stands for a blank that is no place to break a line: those of short code."""
_SHORT = 40


def reflow(markdown: str, width: int) -> str:
    """The page with paragraphs and list items of at most ``width`` columns; all other lines stay."""
    lines: list[str] = []
    paragraph: list[str] = []
    for line in [*markdown.split("\n"), ""]:
        own = not paragraph and line.startswith("    ")
        if not line.strip() or own or line.startswith(("#", "|")) or _MARK.match(line):
            lines += _wrapped(paragraph, width)
            paragraph = []
        if not line.strip() or own or line.startswith(("#", "|")):
            lines.append(line)
        else:
            paragraph.append(line)
    return "\n".join(lines[:-1])


def _hold(span: re.Match[str]) -> str:
    return span.group().replace(" ", _HELD) if len(span.group()) <= _SHORT else span.group()


def _wrapped(paragraph: list[str], width: int) -> list[str]:
    if not paragraph:
        return []
    first = paragraph[0]
    mark = _MARK.match(first)
    start = mark.group() if mark else first[: len(first) - len(first.lstrip())]
    text = " ".join([first[len(start) :], *(line.strip() for line in paragraph[1:])])
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
