"""The templates of pages: everything is escaped unless it is Markup, and an unknown name is an error."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fusiondoc.reports import wording
from fusiondoc.reports.printable import visible

_SHARED = Path(__file__).resolve().parent / "html" / "templates"
"""What pages other than the report's use of it: ``macros.html.jinja``."""


def render_page(folder: Path, name: str, **values: object) -> str:
    """The template ``name`` of a folder with these values."""
    return _environment(folder).get_template(name).render(**values)


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


@lru_cache(maxsize=None)
def _environment(folder: Path) -> Environment:
    made = Environment(
        loader=FileSystemLoader([str(folder), str(_SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finished,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        count=wording.count,
        percent=wording.percent,
        seconds=wording.seconds,
        size=wording.size,
        number=_number,
    )
    return made


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _finished(value: Any) -> Any:
    """What a template prints: text without hidden characters, nothing for None."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return "" if value is None else value
