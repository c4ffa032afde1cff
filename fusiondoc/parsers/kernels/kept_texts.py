"""Texts of kernels, within a budget: equal ones once, packed while the log is read."""

from __future__ import annotations

import zlib
from hashlib import blake2b

BUDGET = 24 << 20
"""Bytes of text that are kept of a run, source and dumps of kernels together: the report holds them as they
are. A kernel has about 10 KB, with the runtime of nvFuser in front (``cuda_full``) 240 KB. Further ones are
counted."""
_LEAST_PACKED = 500
"""Bytes that are worth packing."""


class Text:
    """A kept text. Kernels that share it share one string."""

    __slots__ = ("_held", "_packed", "_text")

    def __init__(self, text: bytes) -> None:
        self._packed = len(text) >= _LEAST_PACKED
        self._held = zlib.compress(text, 1) if self._packed else text
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            held, self._held = self._held, b""
            self._text = (zlib.decompress(held) if self._packed else held).decode("utf-8", "replace")
        return self._text


class TextStore:
    """The texts of a run."""

    def __init__(self) -> None:
        self._room = BUDGET
        self._known: dict[bytes, Text] = {}
        self._refused: set[int] = set()
        """Hashes of those that there was no room for."""

    def keep(self, text: bytes, digest: bytes | None = None) -> Text | None:
        """The text as it is kept; None if there is no room for it."""
        if digest is None:
            digest = digest_of(text)
        known = self._known.get(digest)
        if known is not None:
            return known
        if len(text) > self._room:
            self._refused.add(hash(digest))
            return None
        self._room -= len(text)
        known = self._known[digest] = Text(text)
        return known

    @property
    def left_out(self) -> int:
        """How many there was no room for."""
        return len(self._refused)


def digest_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
