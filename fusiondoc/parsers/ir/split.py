"""Taking apart the texts inside one line of IR: value lists, attributes, the tail after the inputs."""

from __future__ import annotations

import re

# Strings are printed with C escapes (c10::printQuotedString), so a quote inside one has a backslash before
# it.
_ATTRIBUTE_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[({]|[\])}]|, (?=[A-Za-z_]\w*=)', re.DOTALL)


def _one_line(text: str) -> str:
    return " ".join(line for line in map(str.strip, text.split("\n")) if line)


def split_values(text: str) -> list[tuple[str, ...]]:
    """``%x.1 : Tensor, %2 : (int, int)`` as pairs of name and type; the type is '' where none was printed.

    No type holds a ``%``, so the ``, %`` between two values is never inside one.
    """
    text = text.strip()
    if not text.startswith("%"):
        return []
    if "\n" in text:
        text = _one_line(text)
    return [part.partition(" : ")[::2] for part in text[1:].split(", %")]


def split_names(text: str) -> tuple[str, ...]:
    """``%x.1, %2`` as names without the ``%``."""
    text = text.strip()
    if not text.startswith("%"):
        return ()
    if "\n" in text:
        text = _one_line(text)
    return tuple(text[1:].split(", %"))


def split_attributes(text: str) -> dict[str, str]:
    """``value="a, b", types=[int, (int, int)]`` as a dictionary of the printed values, in print order."""
    if ", " not in text:
        name, equals, value = text.partition("=")
        return {name.strip(): value} if equals else {}
    pieces = []
    start = depth = 0
    for match in _ATTRIBUTE_TOKEN.finditer(text):
        token = match[0]
        if token in "[({":
            depth += 1
        elif token in "])}":
            depth -= 1
        elif token == ", " and depth <= 0:
            pieces.append(text[start : match.start()])
            start = match.end()
    pieces.append(text[start:])
    attributes = {}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        if equals:
            attributes[name.strip()] = value
    return attributes


def split_tail(text: str | None) -> tuple[str | None, str | None]:
    """Scope and source of what follows the inputs: ``, scope: __module.l # file.py:134:0``."""
    text = text.rstrip() if text else ""
    if text.startswith(", scope: "):
        scope, hash_mark, source = text[9:].partition(" # ")
        return scope, source if hash_mark else None
    return None, text[3:] if text.startswith(" # ") else None
