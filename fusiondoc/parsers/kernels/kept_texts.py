"""Texts of kernels, within a budget: equal ones once, packed while the log is read."""

from __future__ import annotations

import zlib
from hashlib import blake2b

BUDGET = 96 << 20
"""Bytes of text that are kept of one stream, source and dumps of kernels together: the report holds them as
they are. What lies beyond is counted but not shown."""


class Text:
    """A kept text. Kernels that share it share one string."""

    __slots__ = ("_packed", "_text")

    def __init__(self, text: bytes) -> None:
        self._packed = zlib.compress(text, 1)
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            self._text = zlib.decompress(self._packed).decode("utf-8", "replace")
            self._packed = b""
        return self._text


class TextStore:
    """The texts of one stream."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._room = budget
        self._known: dict[bytes, Text] = {}

    def keep(self, text: bytes, digest: bytes | None = None) -> Text | None:
        """The text as it is kept; None if there is no room for it."""
        if digest is None:
            digest = digest_of(text)
        known = self._known.get(digest)
        if known is not None:
            return known
        if len(text) > self._room:
            return None
        self._room -= len(text)
        known = self._known[digest] = Text(text)
        return known


def digest_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
