"""The catalogue of knobs, environment variables and dump options by torch version, and checks against it.

This file defines the kinds of entries, a class for each; their texts are plain sentences. ``catalogue`` looks
entries up. ``checks`` refuses names and values that a torch version does not know. The probe tries knobs on a
live torch.

Named tuples, because the module behind dataclasses takes longer to import than the whole catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from fusiondoc.errors import UsageError
from fusiondoc.numbers import pair_of, version_pair


class Knob(NamedTuple):
    """A switch in ``torch._C`` that fusiondoc can set before a run (``--knob NAME=VALUE``)."""

    name: str
    fuser: str
    """What it belongs to: nvfuser, nnc, onednn, legacy, executor or log."""
    setter: str
    getter: str | None
    kind: str
    """switch, count, integer, strategy, operators, text, stream or function: how a value is written."""
    default: str
    does: str
    effect: str
    """What changes in a log or report when it is set, and when that is wanted."""
    live: tuple[Span, ...]
    """Where it does something. ``exists`` is wider where it stays behind as a no-op."""
    exists: tuple[Span, ...]
    source: str


class Variable(NamedTuple):
    """An environment variable."""

    name: str
    values: str
    default: str
    does: str
    live: tuple[Span, ...]
    """Empty for a variable that no release of torch reads."""
    source: str
    of_package: bool = False
    """Read by the stand-alone nvfuser package instead of torch."""


class Option(NamedTuple):
    """A word in PYTORCH_NVFUSER_DUMP, _ENABLE or _DISABLE."""

    name: str
    does: str
    live: tuple[Span, ...]
    stream: str = "stdout"


class FuserDump(NamedTuple):
    """A dump of NNC or oneDNN Graph, by the name that ``--dump`` has for it."""

    name: str
    fuser: str
    """nnc or onednn."""
    does: str
    live: tuple[Span, ...]
    needs: tuple[tuple[str, str], ...]
    """Environment variables that make torch print it, each with its value."""


class LogFile(NamedTuple):
    """A file of torch that writes to the JIT log, named without folder and ending."""

    name: str
    least: int
    """The lowest level that prints anything: 0 ``name``, 1 ``>name``, 2 ``>>name``."""
    live: tuple[Span, ...]
    does: str | None
    """None where it is listed but has nothing to do with fusion."""


Version = tuple[int, int]

OLDEST: Version = (1, 11)
NEWEST: Version = (2, 13)
"""The newest torch whose facts are in the catalogue. A newer torch is taken to be like it."""


def parse_version(text: str) -> Version:
    """(2, 1) of "2.1", "2.1.2+cu121" or "2.1.0a0+git1234"; UsageError if it is no version."""
    version = version_pair(text)
    if version is None:
        raise UsageError(f"'{text}' is not a torch version.", "Write it as in 2.1 or 2.1.2+cu121.")
    return version


def has_nvfuser(torch: str, cuda: str | None) -> bool:
    """Whether TorchScript of this torch version and build holds nvFuser (1.10 to 2.1, CUDA builds)."""
    return cuda is not None and (1, 10) <= release(torch) < (2, 2)


def release(torch: str) -> tuple[int, int]:
    """(major, minor) of a torch version."""
    return pair_of(re.match(r"(\d+)\.(\d+)", torch)) or (0, 0)


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
    """The span that a text such as "1.12-2.1", or a single version such as "1.11", names."""
    first, _, last = text.partition("-")
    return Span(parse_version(first), parse_version(last or first))


def exists_in(spans: tuple[Span, ...], version: Version | None) -> bool:
    """Whether any span holds the version; for None, whether there is any span at all."""
    return bool(spans) if version is None else any(version in interval for interval in spans)


def hull(spans: Iterable[Span]) -> Span:
    """The span from the first to the last version of any of them."""
    spans = tuple(spans)
    return Span(min(interval.first for interval in spans), max(interval.last for interval in spans))


def describe(spans: tuple[Span, ...]) -> str:
    """ "1.11, 1.13 to 2.1", or "no release" """
    return ", ".join(map(str, spans)) if spans else "no release"
