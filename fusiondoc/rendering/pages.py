"""Documents as self-contained pages: no script, no network, light and dark; and the
templates that all pages share, in which everything is escaped unless it is Markup
and an unknown name is an error.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fusiondoc.model import count
from fusiondoc.rendering import plots, timelines
from fusiondoc.rendering.blocks import (
    Block,
    CodeBlock,
    Document,
    Formats,
    Section,
    Sentences,
    shown,
    shown_blocks,
)
from fusiondoc.rendering.cells import interval_of, known_columns, tone_of, written
from fusiondoc.rendering.highlighting import coloured_lines, plain_lines
from fusiondoc.rendering.hues import hue
from fusiondoc.rendering.pictures import placed
from fusiondoc.rendering.printable import visible
from fusiondoc.rendering.units import PAGE, percent, seconds, size
from fusiondoc.rendering.values import Cell, Count, Duration, Gauge, Share
from fusiondoc.version import __version__

_HERE = Path(__file__).resolve().parent


def render(
    document: Document, further_style: str = "", with_script: bool = False
) -> str:
    """Return the document as a page of HTML.

    Args:
        further_style: CSS rules for the classes of its pictures.
        with_script: with the script that searches, sorts, folds and shows details
            of boxes.
    """
    style = (_HERE / "page.css").read_text(encoding="utf-8") + further_style
    script = (_HERE / "page.js").read_text(encoding="utf-8") if with_script else ""
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{digest(style)}'"
    if script:
        policy += f"; script-src '{digest(script)}'"
    sections = shown(document.sections, Formats.PAGE)
    return (
        _environment()
        .get_template("document.html.jinja")
        .render(
            policy=policy,
            style=Markup(style),
            script=Markup(script),
            version=__version__,
            document=document,
            sections=sections,
            room=Room(_rows(sections)),
        )
    )


MOST_COLOURED = 200_000
"""Most characters of one page that get colours; spans take several times the size
of the code."""
FEW_COLOURED = 60_000
"""The same limit for a page with very many rows: browsers are slow for many
elements."""
_MANY = 1_000
"""Number of rows and entries from which on a page counts as large."""
MOST_TEXT = 700_000
"""Most characters of code in total, as they are on the page: this keeps every page
below five megabytes."""
MOST_DETAILS = 300_000
"""Most characters in the folded parts of a list's entries, apart from code."""


def _rows(sections: Sequence[Section]) -> int:
    total = 0
    for section in sections:
        for block in section.blocks:
            total += len(getattr(block, "rows", ()))
    return total


AT_ONCE = 200
"""Number of entries; two thousand take half of the time to show a page."""


class Room:
    """The remaining room for code and folded entries on a page of ``rows`` rows."""

    def __init__(self, rows: int) -> None:
        self._colours = MOST_COLOURED if rows < _MANY else FEW_COLOURED
        self._text = MOST_TEXT
        self._details: dict[str, int] = {}
        self._code = 0

    def code(self, block: CodeBlock) -> Markup | None:
        """Return the text of the block with its colours; None if the page has no
        room for it."""
        if len(block.text) > self._text:
            return None
        made = Markup("\n").join(self.coloured(block.text, block.language))
        if len(made) > self._text:
            return None
        self._text -= len(made)
        self._code += len(made)
        return made

    def coloured(self, text: str, language: str) -> list[Markup]:
        """Return the lines of a text, with colours as long as the page has room for
        them."""
        if not language or len(text) > self._colours:
            return plain_lines(text)
        self._colours -= len(text)
        return coloured_lines(text, language)

    @property
    def at_once(self) -> int:
        """The number of entries of a list that a browser reads before it shows the
        page. The other entries are in parts of this size, each in a ``noscript``,
        which page.js reads afterwards; a browser without scripts reads all."""
        return AT_ONCE

    def has_details(self, section: str) -> bool:
        """True if the section has room to fold another entry."""
        self._code = 0
        return self._details.get(section, 0) < MOST_DETAILS

    def take_details(self, section: str, characters: int) -> str:
        """Record that the section folds an entry of this many characters; return ""
        for the template to print."""
        self._details[section] = (
            self._details.get(section, 0) + characters - self._code
        )
        return ""


def digest(text: str) -> str:
    """Return the source expression of a Content-Security-Policy that allows this
    style or script."""
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode(
        "ascii"
    )


def script_data(data: object) -> Markup:
    """Return JSON for an element ``script``: nothing in it can end the element or
    be parsed as markup, and U+2028 is an escape, like all non-ASCII characters."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(str(_HERE / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finished,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        count=count,
        percent=partial(PAGE.known, write=percent),
        milliseconds=partial(PAGE.known, write=lambda ms: seconds(ms / 1e3)),
        size=partial(PAGE.known, write=size),
        number=PAGE.count,
        kind=_kind,
        blocks_shown=partial(shown_blocks, format_=Formats.PAGE),
        known_columns=known_columns,
        written=_written,
        interval=interval_of,
        tone=_tone,
        hue=hue,
        plotted=plots.plotted,
        timeline_drawn=timelines.drawn,
        pieces=plots.pieces,
        hue_of=plots.hue_of,
        placed=placed,
        script_data=script_data,
        figure=_figure,
        breakable=breakable,
    )
    return made


def _finished(value: Any) -> Any:
    """Return the text that a template prints for a value: without hidden
    characters, "" for None."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    if value is None:
        return ""
    return value


_LONG_WORD = re.compile(r"\S{16,}")
_JOINT = re.compile(r"(?<=\w)(?:(?:::|/)(?=\w)|\.(?=[A-Za-z_])|_+(?=[^\W_]))")
"""Matches between the parts of a name such as ``aten::index_select`` or
``models/block.py``, but not in a number."""
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def breakable(text: str) -> Markup:
    """Return the text with ``<wbr>`` where a narrow column may break its long
    names. An option is never broken."""
    joined = _LONG_WORD.sub(_with_joints, str(escape(visible(text))))
    return Markup(_OPTION.sub(r'<span class="whole">\g<0></span>', joined))


def _with_joints(word: re.Match[str]) -> str:
    return _JOINT.sub(r"\g<0><wbr>", word.group())


def _kind(block: Block) -> str:
    """Return the name of a block's type, by which the template chooses the
    macro."""
    return type(block).__name__


def _figure(cell: Cell) -> float:
    """Return the figure by which a column of a tree is sorted; unknown values come
    last."""
    match cell:
        case Count(number) if number is not None:
            return number
        case Share(share) if share is not None:
            return share
        case Duration(ms) if ms is not None:
            return ms
        case Gauge(share):
            return share
    return -1


def _written(cell: Cell) -> str:
    return written(cell, PAGE)


def _tone(cell: Cell | Sentences) -> str:
    return tone_of(cell).value
