"""Keeps the texts of kernels, their sources and dumps, within a budget; equal texts
are kept once."""

from __future__ import annotations

from hashlib import blake2b

BUDGET = 10 << 20
"""Number of bytes of text that are kept of a run, sources and dumps of kernels
together: JSON contains them unchanged. A kernel has about 10 KB; with the fuser's
runtime before it (``cuda_full``) 240 KB. Further texts are only counted."""


class TextStore:
    """The texts of a run."""

    def __init__(self) -> None:
        self._room = BUDGET
        self._known: dict[bytes, str] = {}
        self._refused: set[int] = set()
        """Hashes of the texts for which there was no room."""

    def keep(self, text: bytes, digest: bytes | None = None) -> str | None:
        """Return the text as it is kept; None if there is no room for it. If
        ``digest`` belongs to a text that was kept or refused before, ``text`` is
        not read."""
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
        """The number of texts for which there was no room."""
        return len(self._refused)


def digest_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
