"""Whose line it is, where several processes write one log and a launcher or container tags each line.

Known tags name the rank. Others are told apart by their text: what is left of a prefix without times. Then
the rank is the number that differs between the tags, or their order where no number does.
"""

from __future__ import annotations

import re
from typing import Iterable, Optional

_KNOWN = tuple(
    re.compile(form)
    for form in (
        rb"\brank[ =:]?(\d{1,9})",
        rb"\[default(\d{1,9})\]",
        rb"\[\d+,(\d{1,9})\]<std(?:err|out)>",
        rb"^\s*(\d{1,9}): ",
        rb"\[(\d{1,9})\]:",
    )
)
"""``[rank0]:``, ``[default0]:`` (torchrun), ``[1,0]<stderr>:`` (mpirun), ``0: `` (srun -l)."""

_TIMES = re.compile(
    rb"\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d\d:\d\d:\d\d(?:[.,]\d+)?|\d+[.,]\d+|\d{9,}|[+-]\d\d:?\d\d\b"
    rb"|\bstd(?:err|out)\b"
)
"""What says nothing of the process: when, and through which of its streams."""
_NUMBER = re.compile(rb"\d+")

_MOST_TAGS = 512
"""More different texts are no tags but something that counts: line numbers, times of an unknown form."""

_LEAST_LINES = 6
"""So many ranks do not write a line each, in order."""

Tag = Optional[bytes]


def rank_of(prefix: bytes) -> int | None:
    """The rank that a prefix names in one of the known forms."""
    for form in _KNOWN:
        found = form.search(prefix)
        if found:
            return int(found.group(1))
    return None


class RankTags:
    """Tells the processes of one log apart. ``sample``: prefixes from its start, one a line."""

    def __init__(self, sample: Iterable[bytes]) -> None:
        self.first: bytes | None = None
        """The first unknown tag. Its lines have the tag None, so that a log with a prefix that tags nothing
        is one process, and goes together with another log of that process that has no prefix."""
        self.current: Tag = None
        """Of the last line; a line without a prefix goes on with it."""
        self._tags: dict[bytes, Tag] = {}
        self._known: set[bytes] = set()
        seen: dict[bytes, int] = {}
        sample = list(sample)
        self._numbered = _line_numbers(sample)
        for prefix in sample:
            text = _TIMES.sub(b"", prefix)
            seen[text] = seen.get(text, 0) + 1
        self._by_text = len(seen) <= min(_MOST_TAGS, max(1, sum(seen.values()) // 3))

    def tag(self, prefix: bytes) -> Tag:
        """What the lines of one process have in common; None where nothing tells."""
        if prefix in self._tags:
            return self._tags[prefix]
        rank = rank_of(prefix) if not self._numbered else None
        tag = b"rank %d" % rank if rank is not None else self._text_of(prefix)
        if len(self._tags) >= 10_000:
            self._tags.clear()
        self._tags[prefix] = tag
        return tag

    def _text_of(self, prefix: bytes) -> Tag:
        if not self._by_text:
            return None
        text = _TIMES.sub(b"", prefix)
        if self.first is None:
            self.first = text
        if text == self.first or (text not in self._known and len(self._known) >= _MOST_TAGS):
            return None
        self._known.add(text)
        return text


def _line_numbers(prefixes: list[bytes]) -> bool:
    """Whether the numbers in a known form (``12: ``) only count the lines, as ``grep -n`` and editors do."""
    numbers = [rank_of(prefix) for prefix in prefixes]
    counted = [number for number in numbers if number is not None]
    rising = all(a < b for a, b in zip(counted, counted[1:]))
    return rising and len(counted) >= _LEAST_LINES


def ranks(tags: Iterable[Tag], first: bytes | None) -> dict[Tag, int | None]:
    """A rank for each tag: the one it names; else the number in which the tags differ; else their order.
    ``first``: the text behind the tag None. A log with one tag that names no rank has no ranks."""
    found: dict[Tag, int | None] = {tag: rank_of(tag) if tag is not None else None for tag in tags}
    unknown = {tag: (tag if tag is not None else first) for tag, rank in found.items() if rank is None}
    texts = [text for text in unknown.values() if text is not None]
    if len(texts) < 2:
        return found
    numbers = _numbers(texts) or {text: place for place, text in enumerate(texts)}
    found.update({tag: numbers[text] for tag, text in unknown.items() if text is not None})
    return found


def _numbers(tags: list[bytes]) -> dict[bytes, int] | None:
    """The last number of the tags that differs from tag to tag; None if none tells all of them apart."""
    rows = [[int(n[-18:]) for n in _NUMBER.findall(tag)] for tag in tags]
    if len({_NUMBER.sub(b"0", tag) for tag in tags}) > 1:
        return None
    for column in reversed(list(zip(*rows))):
        if len(set(column)) == len(tags):
            return dict(zip(tags, column))
    return None
