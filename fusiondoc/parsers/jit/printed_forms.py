"""Graphs that differ only in value names, source positions and tensor sizes are
read once.

A program that meets other shapes, or that runs the same layers from other lines,
prints the same graphs with other numbers. So such a graph is read once as a pattern
(``patterns.py``), and of each further graph of that form only the differing texts
are kept.

The result of reading a graph may depend on these texts only by equality: two texts
are the same text of the pattern exactly if they are equal. The letters of names,
the scalar type, rank, ``requires_grad`` and device of types, and constants and
scopes belong to the form: a graph with others has another form.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from itertools import chain, count
from typing import Any, NamedTuple

from fusiondoc.parsers.jit.patterns import (
    MOST_TOKENS,
    Canonical,
    PatternedPart,
    Patterns,
    Whole,
    canonical_digest,
    canonical_kept,
    holds_mark,
    marked,
    patterns_of,
    texts_of,
)

_TOKEN = re.compile(
    rb"([%#(](?:(?<=%)[A-Za-z0-9_.]+|[0-9](?<=[A-Za-z0-9_]\(.)[^()\n]*\)| (?<=# ).*))"
)
"""A name, a source position, or the bracketed part of a type with sizes. The first
byte is matched before the alternatives, and each alternative begins with the byte
that distinguishes it: this takes a third of the time."""
_NUMBER = re.compile(rb"[0-9](?<![A-Za-z=0-9][0-9])[0-9]{0,17}(?![0-9)])")
"""A number that may differ: not in a scalar type (``Float8_e5m2``), not in
``requires_grad=1``, not in a device."""
_DIGITS = b"0123456789"
"""In names and source positions all digits may differ."""
_NAME = re.compile(rb"%[\w.]+")
_OF_NAMES = ord("%")
_OF_TYPES = ord("(")

_MOST_TEXT = 1 << 20
"""Number of bytes of a graph that is kept as a pattern: cutting it takes ten times
as many."""
_MOST_CUTS = 4
"""Number of texts that stay cut: the graph with which a pass began and the plan
that it left, and the same of the previous pass."""
_MOST_SEEN = 50_000
"""Number of remembered forms without a pattern."""
_MOST_KEPT = 24 << 20
"""Number of bytes of all patterns."""

Reader = Callable[[Sequence[bytes], Canonical], Sequence[Any]]
"""Reads printed graphs into parts that are needed at different times. Its second
argument makes the digests of canonical graphs."""


class _CutText:
    """A printed graph, cut into the texts that all graphs of its form have in
    common and the tokens that differ."""

    def __init__(self, text: bytes) -> None:
        parts = _TOKEN.split(text)
        self.rest = parts[::2]
        self.tokens = parts[1::2]
        """The tokens between ``rest``, in order."""
        self.common = sha256(b"\0".join(self.rest))

    def nameless(self) -> bytes:
        """Return the digest of the text without value names: equal for equal
        graphs."""
        digest = self.common.copy()
        digest.update(
            b"\0".join(
                [token if token[0] != _OF_NAMES else b"%" for token in self.tokens]
            )
        )
        return digest.digest()


class _Tokens(NamedTuple):
    """The tokens that differ in graphs that are read together."""

    different: Collection[bytes]
    """Each token once, in the order of first occurrence."""
    lines: bytes
    """The same tokens, one per line."""
    form: bytes
    """The digest of the texts that all graphs of this form have in common."""


def _tokens_of(cuts: Sequence[_CutText], about: object) -> _Tokens:
    first_at: dict[bytes, int] = {}
    tokens = chain.from_iterable([cut.tokens for cut in cuts])
    order = array("I", map(first_at.setdefault, tokens, count()))
    lines = b"\n".join(first_at)
    types = b"\n".join([token for token in first_at if token[0] == _OF_TYPES])
    digest = sha256(_NUMBER.sub(b"0", types))
    digest.update(lines.translate(None, _DIGITS))
    for cut in cuts:
        digest.update(cut.common.digest())
    digest.update(order.tobytes())
    digest.update(repr(about).encode("utf-8", "surrogatepass"))
    return _Tokens(first_at, lines, digest.digest())


class PrintedForms:
    """The results of reading printed graphs, by their form."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        """Forms that occurred once: in a short log few occur again."""
        self._patterns: dict[bytes, Patterns | None] = {}
        """None for a form of which no pattern can be made."""
        self._kept = 0
        self._cuts: dict[bytes, _CutText | None] = {}
        """The last texts, cut: an executor prints again the plan that a fusion pass
        left."""

    def nameless(self, text: bytes) -> bytes:
        """Return the digest of a printed graph without value names: equal for equal
        graphs."""
        cut = self._cut(text)
        if cut is not None:
            return cut.nameless()
        return sha256(_NAME.sub(b"%", text)).digest()

    def read(
        self, texts: Sequence[bytes], about: object, reader: Reader
    ) -> Sequence[PatternedPart[Any]]:
        """Return the parts that ``reader`` reads from the texts.

        Args:
            about: everything else on which the result depends.
        """
        cuts = [cut for cut in map(self._cut, texts) if cut is not None]
        if len(cuts) < len(texts) or sum(map(len, texts)) > _MOST_TEXT:
            return whole(reader, texts)
        tokens = _tokens_of(cuts, about)
        own = texts_of(tokens.lines) if tokens.lines else []
        if len(set(own)) < len(own):
            return whole(reader, texts)
        if tokens.form not in self._patterns:
            if tokens.form not in self._seen:
                if len(self._seen) >= _MOST_SEEN:
                    self._seen.clear()
                self._seen.add(tokens.form)
                return whole(reader, texts)
            self._keep(cuts, tokens, reader)
        patterns = self._patterns[tokens.form]
        if patterns is not None:
            return patterns.kept(own)
        return whole(reader, texts)

    def _cut(self, text: bytes) -> _CutText | None:
        """Return the text cut into tokens; None if it cannot be cut."""
        if text not in self._cuts:
            if len(self._cuts) >= _MOST_CUTS:
                del self._cuts[next(iter(self._cuts))]
            self._cuts[text] = _CutText(text) if _can_be_cut(text) else None
        return self._cuts[text]

    def _keep(
        self, cuts: Sequence[_CutText], tokens: _Tokens, reader: Reader
    ) -> None:
        """Make and keep the patterns of a form."""
        patterns = _patterns(cuts, tokens.different, reader)
        if self._kept > _MOST_KEPT:
            self._patterns.clear()
            self._kept = 0
        self._patterns[tokens.form] = patterns
        self._kept += patterns.size if patterns is not None else 0


def whole(reader: Reader, texts: Sequence[bytes]) -> Sequence[PatternedPart[Any]]:
    """Read these texts without a pattern and return the parts."""
    return [Whole(part) for part in reader(texts, canonical_digest)]


def _can_be_cut(text: bytes) -> bool:
    return (
        len(text) <= _MOST_TEXT
        and text.isascii()
        and b"\r" not in text
        and b"\0" not in text
    )


def _patterns(
    cuts: Sequence[_CutText], different: Collection[bytes], reader: Reader
) -> Patterns | None:
    if len(different) > MOST_TOKENS or any(
        map(holds_mark, chain(different, *(cut.rest for cut in cuts)))
    ):
        return None
    with_mark = {
        token: marked(token, number) for number, token in enumerate(different)
    }
    texts = []
    for cut in cuts:
        parts = cut.rest[:1]
        for token, rest in zip(cut.tokens, cut.rest[1:]):
            parts += (with_mark[token], rest)
        texts.append(b"".join(parts))
    marked_texts = texts_of(b"\n".join(with_mark.values())) if with_mark else []
    return patterns_of(reader(texts, canonical_kept), marked_texts)
