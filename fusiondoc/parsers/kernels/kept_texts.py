"""The texts of kernels, their sources and dumps: kept within a budget, equal ones
once."""

from __future__ import annotations

from hashlib import blake2b

BUDGET = 12 << 20
"""Bytes of text that are kept of a run, source and dumps of kernels together: JSON
holds them as they are. A kernel has about 10 KB, with the runtime of the fuser in
front (``cuda_full``) 240 KB. Further ones are counted."""


class TextStore:
    """The texts of a run."""

    def __init__(self) -> None:
        self._room = BUDGET
        self._known: dict[bytes, str] = {}
        self._refused: set[int] = set()
        """Hashes of those that there was no room for."""

    def keep(self, text: bytes, digest: bytes | None = None) -> str | None:
        """The text as it is kept; None if there is no room for it. With the digest
        of one that was kept, or refused, before, the text is not looked at."""
        if digest is None:
            digest = digest_of(text)
        known = self._known.get(digest)
        if known is not None or hash(digest) in self._refused:
            return known
        if len(text) > self._room:
            self._refused.add(hash(digest))
            return None
        self._room -= len(text)
        known = self._known[digest] = text.decode("utf-8", "replace")
        return known

    @property
    def left_out(self) -> int:
        """How many there was no room for."""
        return len(self._refused)


def digest_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
