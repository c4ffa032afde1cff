"""Graphs that differ in the names of values, source positions and sizes of tensors alone are read once.

A program that meets other shapes, or that runs the same layers from other lines, prints the same graphs with
other numbers. What such a graph says is the same but for these texts. So it is read once with a mark in each
of them (``%x.1`` is read as ``%x.1.0zq00007zq``), and kept as a pattern: a pickle that has texts by number.
Each further graph of that form is the pattern with its own texts. To fill a pattern takes a twentieth of the
time of reading a graph. The pickles are made here of our own objects and never leave the process.

Nothing that is read of a graph may depend on these numbers but by equality: two texts are the same text of
the pattern exactly if they are equal. Names keep their letters, types their scalar type, rank,
``requires_grad`` and device, and constants and scopes are no such texts: a graph with other ones has another
form.
"""

from __future__ import annotations

import io
import pickle
import re
from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any, NamedTuple, TypeVar

Read = TypeVar("Read")

_TOKEN = re.compile(rb"(%[A-Za-z0-9_.]+|# .*|\((?<=[A-Za-z0-9_]\()[0-9][^()\n]*\))")
"""A name, a source position, the part of a type with sizes that stands in brackets."""
_NUMBER = re.compile(rb"[0-9](?<![A-Za-z=0-9][0-9])[0-9]{0,17}(?![0-9)])")
"""A number that may differ: no part of a scalar type (``Float8_e5m2``), no ``requires_grad=1``, no device."""
_NAME = re.compile(rb"%[\w.]+")
_SIZE = re.compile(rb"\(\d+")

_MARK = re.compile(r"zq(\d{5})zq|\(971(\d{5})71")
"""A mark, and the number of its text in the pattern."""
_MARKS = (b"zq", b"(971")
"""A graph that holds one of them is read by itself."""

_MOST_TEXT = 1 << 20
"""Bytes of a graph that is kept as a pattern: to cut it up takes ten times as many."""
_MOST_TOKENS = 90_000
"""Different texts of a pattern: they are numbered with five digits."""
_MOST_CUTS = 4
"""Texts that stay cut up: what a pass began with and what it left, and the same of the pass before."""
_MOST_SEEN = 50_000
"""Forms that are remembered and have no pattern yet."""
_MOST_KEPT = 24 << 20
"""Bytes of all patterns."""


class CanonicalText(bytes):
    """The digest of a text that is taken from each graph's own text where a pattern is filled."""

    text: str

    def __reduce__(self) -> tuple[Callable[[str], bytes], tuple[str]]:
        return canonical_digest, (self.text,)


def canonical_digest(text: str) -> bytes:
    """The digest of a canonical graph: see ``PlanGroup.canonical``."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def canonical_kept(text: str) -> bytes:
    """The same, with the text beside it, for a graph that becomes a pattern."""
    made = CanonicalText(canonical_digest(text))
    made.text = text
    return made


Canonical = Callable[[str], bytes]
Reader = Callable[[Sequence[bytes], Canonical], Read]
"""Reads printed graphs; takes the digests of canonical graphs by its second argument."""


class _CutText:
    """A printed graph, cut into what all graphs of its form have in common and what differs."""

    def __init__(self, text: bytes) -> None:
        parts = _TOKEN.split(text)
        self.rest = parts[::2]
        self.tokens = parts[1::2]
        """Those between, in order."""
        self.common = blake2b(b"\0".join(self.rest), digest_size=20)

    def nameless(self) -> bytes:
        """The digest of the text without the names of values: equal graphs have equal ones."""
        digest = self.common.copy()
        digest.update(b"\0".join([b"%" if token.startswith(b"%") else token for token in self.tokens]))
        return digest.digest()


class _Tokens(NamedTuple):
    """What differs in graphs that are read together."""

    different: list[bytes]
    """Each token once, in the order of its first occurrence."""
    lines: bytes
    """The same, each on a line of its own."""
    form: bytes
    """The digest of what all graphs of this form have in common."""


def _tokens_of(cuts: Sequence[_CutText], about: object) -> _Tokens:
    tokens = [token for cut in cuts for token in cut.tokens]
    numbers = dict(zip(dict.fromkeys(tokens), count()))
    order = array("I", map(numbers.__getitem__, tokens))
    different = list(numbers)
    lines = b"\n".join(different)
    digest = blake2b(_NUMBER.sub(b"0", lines), digest_size=20)
    for cut in cuts:
        digest.update(cut.common.digest())
    digest.update(order.tobytes())
    digest.update(repr(about).encode("utf-8", "surrogatepass"))
    return _Tokens(different, lines, digest.digest())


def _marked(token: bytes, number: int) -> bytes:
    """The token with a mark, of the same kind to all that reads it."""
    if token.startswith(b"%"):
        return b"%s.0zq%05dzq" % (token, number)
    if token.startswith(b"# "):
        return b"%szq%05dzq" % (token.rstrip(), number)
    return _SIZE.sub(b"(971%05d71" % number, token, count=1)


def _texts_of(tokens: bytes) -> list[str]:
    """Tokens, each on a line, as they stand in what is read: a name without its sign, a source position
    without the mark before it."""
    text = "\n" + tokens.decode("ascii")
    texts = text.replace("\n%", "\n").replace("\n# ", "\n")[1:].split("\n")
    return list(map(str.rstrip, texts))


class _NoPattern(Exception):
    """What was read holds a mark where its token cannot be told."""


class _Writer(pickle.Pickler):
    """Pickles what was read of a marked text: each string, and each tuple or set of constants, as its index
    in the table that fills the pattern. Texts of the graph come first there, composed texts behind them, and
    constants are counted from its end."""

    def __init__(self, out: io.BytesIO, marked: Sequence[str]) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._marked = marked
        self._tokens = {text: number for number, text in enumerate(marked)}
        self.constants: list[object] = []
        self.composed: list[list[str | int]] = []
        """Texts that hold tokens: their parts, a token as its number."""
        self._slots: dict[object, int] = {}
        """By the text, or by type and representation of a tuple or set: 1 and True are equal."""

    def persistent_id(self, value: object) -> int | None:
        if isinstance(value, str):
            slot = self._slots.get(value)
            if slot is None:
                slot = self._slots[value] = self._slot_of_text(value)
            return slot
        if isinstance(value, (tuple, frozenset)) and _is_constant(value):
            key = type(value), repr(value)
            if key not in self._slots:
                self._slots[key] = self._slot_of_constant(value)
            return self._slots[key]
        return None

    def _slot_of_text(self, text: str) -> int:
        if text in self._tokens:
            return self._tokens[text]
        if _MARK.search(text) is None:
            return self._slot_of_constant(text)
        self.composed.append(self._parts(text))
        return len(self._marked) + len(self.composed) - 1

    def _slot_of_constant(self, value: object) -> int:
        self.constants.append(value)
        return -len(self.constants)

    def _parts(self, text: str) -> list[str | int]:
        parts: list[str | int] = []
        at = 0
        for found in _MARK.finditer(text):
            number = int(found.group(1) or found.group(2))
            token = self._marked[number]
            start = found.start() - token.index(found.group())
            if start < at or not text.startswith(token, start):
                raise _NoPattern
            parts += [text[at:start], number]
            at = start + len(token)
        parts.append(text[at:])
        return parts


def _is_constant(value: object) -> bool:
    """Whether it is the same object of all graphs of a form: it cannot be changed, and holds no token."""
    if isinstance(value, str):
        return _MARK.search(value) is None
    if type(value) is frozenset:
        return all(map(_is_constant, value))
    if isinstance(value, tuple):
        return (type(value) is tuple or hasattr(value, "_fields")) and all(map(_is_constant, value))
    return value is None or isinstance(value, (int, float))


class _Pattern(NamedTuple):
    """What all graphs of a form say."""

    data: bytes
    composed: list[list[str | int]]
    constants: list[object]
    """The last one first."""

    def filled(self, texts: list[str]) -> Any:
        """What the graph with these texts says."""
        composed = [
            "".join([part if isinstance(part, str) else texts[part] for part in parts])
            for parts in self.composed
        ]
        table: list[Any] = [*texts, *composed, *self.constants]
        reader = pickle.Unpickler(io.BytesIO(self.data))
        reader.persistent_load = table.__getitem__  # type: ignore[method-assign]
        return reader.load()


class PrintedForms:
    """What printed graphs say, by their form."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        """Forms that one graph had: few come again in a short log."""
        self._patterns: dict[bytes, _Pattern | None] = {}
        """None of a form that cannot be kept."""
        self._kept = 0
        self._cuts: dict[bytes, _CutText | None] = {}
        """Of the last texts: an executor prints again what a fusion pass left."""

    def nameless(self, text: bytes) -> bytes:
        """The digest of a printed graph without the names of values: equal graphs have equal ones."""
        cut = self._cut(text)
        return cut.nameless() if cut is not None else blake2b(_NAME.sub(b"%", text), digest_size=20).digest()

    def read(self, texts: Sequence[bytes], about: object, reader: Reader[Read]) -> Read:
        """What ``reader`` reads of the texts.

        Args:
            about: all else that it depends on.
        """
        cuts = [cut for cut in map(self._cut, texts) if cut is not None]
        if len(cuts) < len(texts) or sum(map(len, texts)) > _MOST_TEXT:
            return reader(texts, canonical_digest)
        tokens = _tokens_of(cuts, about)
        own = _texts_of(tokens.lines) if tokens.different else []
        if len(set(own)) < len(own):
            return reader(texts, canonical_digest)
        if tokens.form not in self._patterns:
            if tokens.form not in self._seen:
                if len(self._seen) >= _MOST_SEEN:
                    self._seen.clear()
                self._seen.add(tokens.form)
                return reader(texts, canonical_digest)
            self._keep(cuts, tokens, reader)
        pattern = self._patterns[tokens.form]
        if pattern is None:
            return reader(texts, canonical_digest)
        filled: Read = pattern.filled(own)
        return filled

    def _cut(self, text: bytes) -> _CutText | None:
        """The text cut up; None for one that cannot be."""
        if text not in self._cuts:
            if len(self._cuts) >= _MOST_CUTS:
                del self._cuts[next(iter(self._cuts))]
            self._cuts[text] = _CutText(text) if _can_be_cut(text) else None
        return self._cuts[text]

    def _keep(self, cuts: Sequence[_CutText], tokens: _Tokens, reader: Reader[Any]) -> None:
        """Make the pattern of a form."""
        pattern = _pattern(cuts, tokens.different, reader)
        if self._kept > _MOST_KEPT:
            self._patterns.clear()
            self._kept = 0
        self._patterns[tokens.form] = pattern
        self._kept += len(pattern.data) if pattern is not None else 0


def _can_be_cut(text: bytes) -> bool:
    return (
        len(text) <= _MOST_TEXT
        and text.isascii()
        and b"\r" not in text
        and b"\0" not in text
        and not any(mark in text for mark in _MARKS)
    )


def _pattern(cuts: Sequence[_CutText], different: Sequence[bytes], reader: Reader[Any]) -> _Pattern | None:
    if len(different) > _MOST_TOKENS:
        return None
    marked = {token: _marked(token, number) for number, token in enumerate(different)}
    texts = []
    for cut in cuts:
        parts = cut.rest[:1]
        for token, rest in zip(cut.tokens, cut.rest[1:]):
            parts += (marked[token], rest)
        texts.append(b"".join(parts))
    out = io.BytesIO()
    writer = _Writer(out, _texts_of(b"\n".join(marked.values())) if marked else [])
    try:
        writer.dump(reader(texts, canonical_kept))
    except _NoPattern:
        return None
    return _Pattern(out.getvalue(), writer.composed, writer.constants[::-1])
