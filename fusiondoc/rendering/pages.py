"""Documents as self-contained pages: no script, no network, light and dark; and the templates that all pages
share, in which everything is escaped unless it is Markup and an unknown name is an error.
"""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fusiondoc.model import count
from fusiondoc.rendering import plots
from fusiondoc.rendering.blocks import Block, Document, Sentences, shown
from fusiondoc.rendering.cells import interval_of, tone_of, written
from fusiondoc.rendering.printable import visible
from fusiondoc.rendering.units import PAGE, percent, seconds, size
from fusiondoc.rendering.values import Cell
from fusiondoc.version import __version__

_HERE = Path(__file__).resolve().parent
TEMPLATES = _HERE / "templates"


def render(document: Document, further_style: str = "") -> str:
    """The document as a page of HTML. ``further_style``: rules for the classes of its pictures."""
    style = style_sheet() + further_style
    return render_page(
        (TEMPLATES,),
        "document.html.jinja",
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{digest(style)}'",
        style=Markup(style),
        version=__version__,
        document=document,
        sections=shown(document.sections),
    )


def style_sheet() -> str:
    """The style that all pages share."""
    return (_HERE / "page.css").read_text(encoding="utf-8")


def digest(text: str) -> str:
    """The source expression of a Content-Security-Policy that allows this style or script."""
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def render_page(folders: tuple[Path, ...], name: str, **values: object) -> str:
    """The template ``name``, looked for in these folders in turn, with these values."""
    return _environment(folders).get_template(name).render(**values)


def escaped(text: str) -> Markup:
    """Text for an element or a quoted attribute; hidden characters are shown as escapes."""
    return escape(visible(text))


def script_data(data: object) -> Markup:
    """JSON for an element ``script``: nothing in it can end the element or be taken for markup, and U+2028 is
    an escape, as all that is not ASCII."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def _environment(folders: tuple[Path, ...]) -> Environment:
    made = Environment(
        loader=FileSystemLoader([str(folder) for folder in folders]),
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
        written=_written,
        interval=interval_of,
        tone=_tone,
        plotted=plots.plotted,
        pieces=plots.pieces,
        hue_of=plots.hue_of,
    )
    return made


def _finished(value: Any) -> Any:
    """The text that a template prints: without hidden characters, nothing for None."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return "" if value is None else value


def _kind(block: Block) -> str:
    """The name of a block's type, by which the template chooses the macro."""
    return type(block).__name__


def _written(cell: Cell) -> str:
    return written(cell, PAGE)


def _tone(cell: Cell | Sentences) -> str:
    return tone_of(cell).value
