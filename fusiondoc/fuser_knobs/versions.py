"""torch versions as (major, minor), and spans of them."""

from __future__ import annotations

import re
from typing import Iterable, NamedTuple, Tuple

from fusiondoc.errors import UsageError

Version = Tuple[int, int]

OLDEST: Version = (1, 11)
NEWEST: Version = (2, 13)
"""The newest torch whose facts are in the catalogue. A newer one is taken to be like it."""


def parse_version(text: str) -> Version:
    """(2, 1) of "2.1", "2.1.2+cu121" or "2.1.0a0+git1234"; UsageError if it is no version."""
    match = re.match(r"\s*v?(\d+)\.(\d+)(?![\d])", text)
    if match is None:
        raise UsageError(f"'{text}' is not a torch version.", "Write it as in 2.1 or 2.1.2+cu121.")
    return int(match.group(1)), int(match.group(2))


class Span(NamedTuple):
    """The versions from ``first`` to ``last``, both included; open to newer ones if ``last`` is NEWEST."""

    first: Version
    last: Version

    def __contains__(self, version: object) -> bool:
        if not isinstance(version, tuple):
            return False
        return self.first <= version and (version <= self.last or self.last == NEWEST)

    def __str__(self) -> str:
        first, last = (".".join(map(str, version)) for version in (self.first, self.last))
        return first if first == last else f"{first} to {last}"


def span(text: str) -> Span:
    """The span of "1.12-2.1", or of one version, "1.11"."""
    first, _, last = text.partition("-")
    return Span(parse_version(first), parse_version(last or first))


def exists_in(spans: tuple[Span, ...], version: Version | None) -> bool:
    """Whether any span holds the version; for None, whether there is any span at all."""
    return bool(spans) if version is None else any(version in one for one in spans)


def hull(spans: Iterable[Span]) -> Span:
    """The span from the first to the last version of any of them."""
    spans = tuple(spans)
    return Span(min(one.first for one in spans), max(one.last for one in spans))


def describe(spans: tuple[Span, ...]) -> str:
    """ "1.11, 1.13 to 2.1", or "no release" """
    return ", ".join(map(str, spans)) if spans else "no release"
