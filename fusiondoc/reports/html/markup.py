"""HTML as nested calls. Text is escaped unless it is Markup, which few modules make."""

from __future__ import annotations

import json
from typing import Any, Iterable, Union

VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "path", "rect", "circle", "line"))
"""Elements without content; those of SVG are closed where they begin."""

_SVG = frozenset(("path", "rect", "circle", "line"))

_ESCAPES = {
    ord(a): b for a, b in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))
}
# Characters that HTML does not allow in text: a parser would drop or replace them.
_ESCAPES.update(dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "\ufffd"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Union[str, None, Iterable[Any]]


def escape(text: str) -> str:
    """The text for an element or a quoted attribute. Lone surrogates cannot be written to a file."""
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


def join(parts: Iterable[Child]) -> Markup:
    """The parts after one another; None is nothing."""
    return Markup("".join(map(_text, parts)))


def el(tag: str, *children: Child, **attributes: Any) -> Markup:
    """An element. ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None and False leave an
    attribute out, True leaves it empty."""
    parts = ["<", tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        parts.append(f' {name}="{"" if value is True else escape(str(value))}"')
    if tag in VOID:
        parts.append("/>" if tag in _SVG else ">")
        return Markup("".join(parts))
    parts.append(">")
    parts.extend(map(_text, children))
    parts.append(f"</{tag}>")
    return Markup("".join(parts))


def data_script(identity: str, data: Any) -> Markup:
    """JSON for the page's script. Nothing in it can end the element or be taken for markup."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{escape(identity)}">{text}</script>')


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(child)
    return join(child)
