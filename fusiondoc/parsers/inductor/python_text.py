"""Splits pieces of Python text that torch wrote, without running it: arguments of a
call, sizes.

All of it may be truncated, damaged or hostile. Nothing here raises, and the time is
linear in the length of the text.
"""

from __future__ import annotations

import functools
import re

from fusiondoc.numbers import LARGEST, whole_number

_BOUNDARY = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[()\[\]{},]")
_PLAIN = re.compile(
    r"([^()\[\]{},'\"]*(?:[(\[][^()\[\]{}'\"]*[)\]][^()\[\]{},'\"]*)*)([,)\]])"
)
"""A part without quotes and with at most one level of brackets, as most are, and
the character after it."""
_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")


def arguments(text: str, start: int) -> tuple[list[str], int]:
    """Return the top-level parts between the bracket at ``start`` and its partner,
    split at commas.

    Returns: The parts without spaces around them, and the index after the closing
    bracket. For a truncated text, the parts until its end.
    """
    parts: list[str] = []
    depth, at = 0, start + 1
    while plain := _PLAIN.match(text, at):
        part, end = plain.groups()
        if part := part.strip():
            parts.append(part)
        at = plain.end()
        if end != ",":
            return parts, at
    parts, at = [], start + 1
    for found in _BOUNDARY.finditer(text, start):
        mark = found.group()
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
            if depth <= 0:
                _add(parts, text[at : found.start()])
                return parts, found.end()
        elif mark == "," and depth == 1:
            _add(parts, text[at : found.start()])
            at = found.end()
    _add(parts, text[at:])
    return parts, len(text)


def _add(parts: list[str], part: str) -> None:
    if part := part.strip():
        parts.append(part)


_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|//|[-+*()])")
_MOST_TEXT = 400
"""Number of characters of an expression of sizes; longer ones are not evaluated."""


class _Expression:
    """A product or sum of sizes, evaluated by recursive descent."""

    def __init__(self, tokens: list[str], hints: dict[str, int]) -> None:
        self._tokens = tokens
        self._hints = hints
        self._at = 0
        self._depth = 0

    def value(self) -> int | None:
        """Return the number, or None if a name has no hint or the text is not an
        expression."""
        result = self._sum()
        if self._at == len(self._tokens):
            return result
        return None

    def _next(self) -> str:
        if self._at < len(self._tokens):
            return self._tokens[self._at]
        return ""

    def _sum(self) -> int | None:
        result = self._product()
        while self._next() in ("+", "-") and result is not None:
            sign = 1 if self._next() == "+" else -1
            self._at += 1
            other = self._product()
            result = None if other is None else _bounded(result + sign * other)
        return result

    def _product(self) -> int | None:
        result = self._factor()
        while self._next() in ("*", "//") and result is not None:
            divides = self._next() == "//"
            self._at += 1
            other = self._factor()
            if other is None or (divides and not other):
                return None
            result = _bounded(result // other if divides else result * other)
        return result

    def _factor(self) -> int | None:
        token = self._next()
        self._at += 1
        if token == "-":
            other = self._deeper(self._factor)
            if other is None:
                return None
            return -other
        if token == "(":
            inner = self._deeper(self._sum)
            closed = self._next() == ")"
            self._at += 1
            if closed:
                return inner
            return None
        if token.isdigit():
            return whole_number(token)
        return self._hints.get(token)

    def _deeper(self, part) -> int | None:  # type: ignore[no-untyped-def]
        self._depth += 1
        if self._depth > 50:
            return None
        result: int | None = part()
        self._depth -= 1
        return result


def _bounded(number: int) -> int | None:
    if -LARGEST < number < LARGEST:
        return number
    return None


def sizes_of(text: str) -> tuple[str, ...]:
    """Return the parts of ``(64, s77)``. Cached: a program has few shapes, and its
    code contains each of them many times."""
    if len(text) <= _MOST_TEXT:
        return _short_sizes(text)
    return tuple(arguments(text, 0)[0])


@functools.lru_cache(maxsize=4_096)
def _short_sizes(text: str) -> tuple[str, ...]:
    return tuple(arguments(text, 0)[0])


def size_of(text: str, hints: dict[str, int]) -> int | None:
    """Return the value of an expression of sizes: ``64``, ``s77*128``, ``(s0 +
    1)//2``; None if it is unknown.

    Args:
        hints: sizes of symbols (``s77`` -> 24).
    """
    if len(text) > _MOST_TEXT:
        return None
    if text.isdigit():
        return whole_number(text)
    tokens = _TOKEN.findall(text)
    if sum(map(len, tokens)) != len("".join(text.split())):
        return None
    return _Expression(tokens, hints).value()
