"""Graphs that differ in the names of values, source positions and sizes of tensors
alone are read once.

A program that meets other shapes, or that runs the same layers from other lines,
prints the same graphs with other numbers. What such a graph says is the same but
for these texts. So it is read once as a pattern (``patterns.py``), and of each
further graph of that form only its own texts are kept.

Nothing that is read of a graph may depend on these numbers but by equality: two
texts are the same text of the pattern exactly if they are equal. Names keep their
letters, types their scalar type, rank, ``requires_grad`` and device, and constants
and scopes are no such texts: a graph with other ones has another form.
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
    Kept,
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
    rb"([%#(](?:[A-Za-z0-9_.](?<=%.)[A-Za-z0-9_.]*| (?<=# ).*|[0-9](?<=[A-Za-z0-9_]\(.)[^()\n]*\)))"
)
"""A name, a source position, the part of a type with sizes that stands in brackets.
The first byte stands before the alternatives, and each of them begins with the byte
that tells it apart: so it is found in a third of the time."""
_NUMBER = re.compile(rb"[0-9](?<![A-Za-z=0-9][0-9])[0-9]{0,17}(?![0-9)])")
"""A number that may differ: no part of a scalar type (``Float8_e5m2``), no
``requires_grad=1``, no device."""
_DIGITS = b"0123456789"
"""All those of names and source positions may differ."""
_NAME = re.compile(rb"%[\w.]+")
_OF_NAMES = ord("%")
_OF_TYPES = ord("(")

_MOST_TEXT = 1 << 20
"""Bytes of a graph that is kept as a pattern: to cut it up takes ten times as
many."""
_MOST_CUTS = 4
"""Texts that stay cut up: what a pass began with and what it left, and the same of
the pass before."""
_MOST_SEEN = 50_000
"""Forms that are remembered and have no pattern yet."""
_MOST_KEPT = 24 << 20
"""Bytes of all patterns."""

Reader = Callable[[Sequence[bytes], Canonical], Sequence[Any]]
"""Reads printed graphs, in parts that are needed at different times; takes the
digests of canonical graphs by its second argument."""


class _CutText:
    """A printed graph, cut into what all graphs of its form have in common and what
    differs."""

    def __init__(self, text: bytes) -> None:
        parts = _TOKEN.split(text)
        self.rest = parts[::2]
        self.tokens = parts[1::2]
        """Those between, in order."""
        self.common = sha256(b"\0".join(self.rest))

    def nameless(self) -> bytes:
        """The digest of the text without the names of values: equal graphs have
        equal ones."""
        digest = self.common.copy()
        digest.update(
            b"\0".join(
                [token if token[0] != _OF_NAMES else b"%" for token in self.tokens]
            )
        )
        return digest.digest()


class _Tokens(NamedTuple):
    """What differs in graphs that are read together."""

    different: Collection[bytes]
    """Each token once, in the order of its first occurrence."""
    lines: bytes
    """The same, each on a line of its own."""
    form: bytes
    """The digest of what all graphs of this form have in common."""


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
    """What printed graphs say, by their form."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        """Forms that one graph had: few come again in a short log."""
        self._patterns: dict[bytes, Patterns | None] = {}
        """None of a form that cannot be kept."""
        self._kept = 0
        self._cuts: dict[bytes, _CutText | None] = {}
        """Of the last texts: an executor prints again what a fusion pass left."""

    def nameless(self, text: bytes) -> bytes:
        """The digest of a printed graph without the names of values: equal graphs
        have equal ones."""
        cut = self._cut(text)
        return (
            cut.nameless()
            if cut is not None
            else sha256(_NAME.sub(b"%", text)).digest()
        )

    def read(
        self, texts: Sequence[bytes], about: object, reader: Reader
    ) -> Sequence[Kept[Any]]:
        """The parts of what ``reader`` reads of the texts.

        Args:
            about: all else that it depends on.
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
        return patterns.kept(own) if patterns is not None else whole(reader, texts)

    def _cut(self, text: bytes) -> _CutText | None:
        """The text cut up; None for one that cannot be."""
        if text not in self._cuts:
            if len(self._cuts) >= _MOST_CUTS:
                del self._cuts[next(iter(self._cuts))]
            self._cuts[text] = _CutText(text) if _can_be_cut(text) else None
        return self._cuts[text]

    def _keep(
        self, cuts: Sequence[_CutText], tokens: _Tokens, reader: Reader
    ) -> None:
        """Make the patterns of a form."""
        patterns = _patterns(cuts, tokens.different, reader)
        if self._kept > _MOST_KEPT:
            self._patterns.clear()
            self._kept = 0
        self._patterns[tokens.form] = patterns
        self._kept += patterns.size if patterns is not None else 0


def whole(reader: Reader, texts: Sequence[bytes]) -> Sequence[Kept[Any]]:
    """The parts of what is read of these texts by themselves."""
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
