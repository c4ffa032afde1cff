"""Patterns: the result of reading one printed graph, into which the texts of other
graphs of the same form are filled.

A graph is read with a mark in each text that may differ (``%x.1`` is read as
``%x.1.0zq00007zq``). The result is kept as a pickle in which those texts are
numbers. Filling it takes a twentieth of the time of reading a graph. The pickles
are made here from our own objects and never leave the process.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

_MARKS = (b"zq", b"(971")
_MARK = re.compile(r"zq(\d{5})zq|\(971(\d{5})71")
"""A mark, and the number of its text in the graph."""
_SIZE = re.compile(rb"\(\d+")

MOST_TOKENS = 90_000
"""Number of different texts of a graph: they are numbered with five digits."""


class CanonicalText(bytes):
    """A digest together with its text, since in a pattern the digest must be
    computed from each graph's own text."""

    text: str


def canonical_digest(text: str) -> bytes:
    """Return the digest of a canonical graph: see ``PlanGroup.canonical``."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def canonical_kept(text: str) -> bytes:
    """The same, with the text attached, for a graph that becomes a pattern."""
    made = CanonicalText(canonical_digest(text))
    made.text = text
    return made


Canonical = Callable[[str], bytes]

Part = TypeVar("Part", covariant=True)


class PatternedPart(Generic[Part]):
    """A part of a read graph, kept as the pattern of its form and the graph's own
    texts."""

    __slots__ = ("_pattern", "_texts")

    def __init__(self, pattern: FormPattern, texts: str) -> None:
        self._pattern = pattern
        self._texts = texts

    def get(self) -> Part:
        """Return the part; each call makes a new object."""
        part: Part = self._pattern.filled(self._texts.split("\n"))
        return part


class Whole(PatternedPart[Part]):
    """A part of a graph that was read without a pattern: ``get`` returns the object
    itself."""

    __slots__ = ("_part",)

    def __init__(self, part: Part) -> None:
        self._part = part

    def get(self) -> Part:
        return self._part


def holds_mark(text: bytes) -> bool:
    """True if a text of a graph may be mistaken for a mark: no pattern is made of
    it."""
    return any(mark in text for mark in _MARKS)


class NoPattern(Exception):
    """The result of reading holds a mark where its text cannot be determined."""


def marked(token: bytes, number: int) -> bytes:
    """Return the token with a mark. The reader sees a token of the same kind."""
    if token.startswith(b"%"):
        return b"%s.0zq%05dzq" % (token, number)
    if token.startswith(b"# "):
        return b"%szq%05dzq" % (token.rstrip(), number)
    return _SIZE.sub(b"(971%05d71" % number, token, count=1)


def texts_of(tokens: bytes) -> list[str]:
    """Return the texts of tokens (one per line) as they occur in the result of
    reading: a name without its ``%``, a source position without ``# ``."""
    text = "\n" + tokens.decode("ascii")
    texts = text.replace("\n%", "\n").replace("\n# ", "\n")[1:].split("\n")
    return list(map(str.rstrip, texts))


Composed = tuple["str | int", ...]
"""The parts of a text that contains texts of the graph: those are given by their
number or slot."""


class _Slots:
    """The texts of a graph that its patterns need, in the order in which they are
    filled in."""

    def __init__(self, marked_texts: Sequence[str]) -> None:
        self.numbers = {text: number for number, text in enumerate(marked_texts)}
        self._texts = marked_texts
        self._slots: dict[int | Composed, int] = {}
        """Number of a text, or the parts of a canonical graph for its digest ->
        slot."""

    def of(self, used: int | Composed) -> int:
        return self._slots.setdefault(used, len(self._slots))

    def used(self) -> list[int | Composed]:
        """Return the content of each slot."""
        return list(self._slots)

    def parts(self, text: str) -> Composed:
        """Return the parts of a text with marks."""
        parts: list[str | int] = []
        at = 0
        for found in _MARK.finditer(text):
            number = int(found.group(1) or found.group(2))
            token = self._texts[number]
            start = found.start() - token.index(found.group())
            if start < at or not text.startswith(token, start):
                raise NoPattern
            parts += [text[at:start], number]
            at = start + len(token)
        parts.append(text[at:])
        return tuple(parts)


def _composed(parts: Composed, texts: Sequence[str]) -> str:
    return "".join(
        [part if isinstance(part, str) else texts[part] for part in parts]
    )


class _Writer(pickle.Pickler):
    """Pickles the result of reading a marked text. Each string, and each tuple or
    set of constants, becomes an index in the table that fills the pattern. Texts of
    the graph come first in the table; constants and composed texts are counted from
    its end."""

    def __init__(self, out: io.BytesIO, slots: _Slots) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._texts = slots
        self.others: list[object] = []
        """Constants, and None for a composed text or a digest."""
        self.composed: dict[int, Composed] = {}
        """Index in ``others`` -> the parts of a text that contains tokens, with the
        slot of each token."""
        self.digests: dict[int, int] = {}
        """Index in ``others`` -> the slot of a digest."""
        self._known: dict[object, int] = {}
        """Keyed by the text, or by type and representation of a tuple or set, since
        1 and True are equal."""

    def persistent_id(self, value: object) -> int | None:
        if isinstance(value, str):
            if value not in self._known:
                self._known[value] = self._index_of_text(value)
            return self._known[value]
        if isinstance(value, CanonicalText):
            return self._index_of_digest(value)
        if isinstance(value, (tuple, frozenset)) and _is_constant(value):
            key = type(value), repr(value)
            if key not in self._known:
                self._known[key] = self._other(value)
            return self._known[key]
        return None

    def reducer_override(self, value: Any) -> Any:
        """Rebuild named tuples with ``tuple`` itself: their own ``__new__`` is
        Python code and takes longer than everything else."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return tuple.__new__, (type(value), tuple(value))
        return NotImplemented

    def _index_of_text(self, text: str) -> int:
        number = self._texts.numbers.get(text)
        if number is not None:
            return self._texts.of(number)
        if _MARK.search(text) is None:
            return self._other(text)
        parts = self._texts.parts(text)
        index = self._other(None)
        own = [
            part if isinstance(part, str) else self._texts.of(part)
            for part in parts
        ]
        self.composed[len(self.others) - 1] = tuple(own)
        return index

    def _index_of_digest(self, digest: CanonicalText) -> int:
        """Return the index of a digest. It is stored with the texts of each graph,
        since it is slow to compute."""
        slot = self._texts.of(self._texts.parts(digest.text))
        index = self._other(None)
        self.digests[len(self.others) - 1] = slot
        return index

    def _other(self, value: object) -> int:
        self.others.append(value)
        return -len(self.others)


def _is_constant(value: object) -> bool:
    """True if the object can be shared by all graphs of a form: it is immutable and
    contains no token."""
    if isinstance(value, str):
        return _MARK.search(value) is None
    if type(value) is frozenset:
        return all(map(_is_constant, value))
    if isinstance(value, tuple):
        return (type(value) is tuple or hasattr(value, "_fields")) and all(
            map(_is_constant, value)
        )
    return value is None or isinstance(value, (int, float))


class FormPattern(NamedTuple):
    """A part of the result of reading, for all graphs of a form."""

    data: bytes
    composed: list[tuple[int, Composed]]
    """Index in ``others`` and the parts of each composed text."""
    digests: list[tuple[int, int]]
    """Index in ``others`` and the slot of each digest."""
    others: list[object]
    """Constants, and None for composed texts and digests."""

    def filled(self, texts: list[str]) -> Any:
        """Return the part for the graph with these texts."""
        others = self.others.copy()
        for index, parts in self.composed:
            others[index] = _composed(parts, texts)
        for index, slot in self.digests:
            others[index] = bytes.fromhex(texts[slot])
        table: list[Any] = [*texts, *others]
        reader = pickle.Unpickler(io.BytesIO(self.data))
        reader.persistent_load = table.__getitem__  # type: ignore[method-assign]
        return reader.load()


class Patterns(NamedTuple):
    """The result of reading for all graphs of a form, part by part."""

    parts: Sequence[FormPattern]
    used: Sequence[int | Composed]
    """The numbers of the texts of a graph that its parts contain, and the canonical
    graphs whose digests they contain."""

    def kept(self, texts: Sequence[str]) -> list[PatternedPart[Any]]:
        """Return the parts for the graph with these texts."""
        own = [
            texts[used]
            if isinstance(used, int)
            else canonical_digest(_composed(used, texts)).hex()
            for used in self.used
        ]
        together = "\n".join(own)
        return [PatternedPart(pattern, together) for pattern in self.parts]

    @property
    def size(self) -> int:
        """Approximate number of bytes."""
        return sum(len(pattern.data) for pattern in self.parts)


def patterns_of(
    parts: Sequence[object], marked_texts: Sequence[str]
) -> Patterns | None:
    """Return the patterns for a marked graph that was read to ``parts``; None if no
    pattern can be made."""
    slots = _Slots(marked_texts)
    try:
        patterns = [_pattern_of(part, slots) for part in parts]
    except NoPattern:
        return None
    return Patterns(patterns, slots.used())


def _pattern_of(part: object, slots: _Slots) -> FormPattern:
    out = io.BytesIO()
    writer = _Writer(out, slots)
    writer.dump(part)
    last = len(writer.others) - 1
    composed = [(last - index, parts) for index, parts in writer.composed.items()]
    digests = [(last - index, slot) for index, slot in writer.digests.items()]
    return FormPattern(out.getvalue(), composed, digests, writer.others[::-1])
