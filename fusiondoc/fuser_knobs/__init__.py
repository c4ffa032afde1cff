"""The catalogue of knobs, environment variables and dump options by torch version,
and checks against it.

The rows of a fuser are in its folder (``fusiondoc/fusers``). ``catalogue`` looks
entries up. ``checks`` refuses names and values that a torch version does not know.
The probe tries knobs on a live torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from fusiondoc.errors import UsageError
from fusiondoc.fusers import FUSERS
from fusiondoc.fusers.knob_rows import Span, Version
from fusiondoc.numbers import pair_of, version_pair


class LogFile(NamedTuple):
    """A file of torch that writes to the JIT log, named without folder and
    extension."""

    name: str
    least: int
    """The lowest level that prints anything: 0 ``name``, 1 ``>name``, 2
    ``>>name``."""
    live: tuple[Span, ...]
    does: str | None
    """None if it is listed but unrelated to fusion."""


def parse_version(text: str) -> Version:
    """(2, 1) for "2.1", "2.1.2+cu121" or "2.1.0a0+git1234"; UsageError if it is no
    version."""
    version = version_pair(text)
    if version is None:
        raise UsageError(
            f"'{text}' is not a torch version.",
            "Write it as in 2.1 or 2.1.2+cu121.",
        )
    return version


def has_gpu_fuser(torch: str, cuda: str | None) -> bool:
    """True if TorchScript of this torch version and build contains a fuser that is
    in CUDA builds alone."""
    return cuda is not None and gpu_fuser_in_release(torch)


def gpu_fuser_in_release(torch: str) -> bool:
    """True if CUDA builds of this torch version contain a fuser that others do not
    have."""
    builds = (fuser.limits.in_builds for fuser in FUSERS.values())
    return any(known is not None and release(torch) in known for known in builds)


def release(torch: str) -> tuple[int, int]:
    """(major, minor) of a torch version."""
    return pair_of(re.match(r"(\d+)\.(\d+)", torch)) or (0, 0)


def exists_in(spans: tuple[Span, ...], version: Version | None) -> bool:
    """True if any span contains the version; for None, if there is any span at
    all."""
    if version is None:
        return bool(spans)
    return any(version in interval for interval in spans)


def hull(spans: Iterable[Span]) -> Span:
    """The span from the first to the last version of all spans."""
    spans = tuple(spans)
    return Span(
        min(interval.first for interval in spans),
        max(interval.last for interval in spans),
    )


def describe(spans: tuple[Span, ...]) -> str:
    """ "1.11, 1.13 to 2.1", or "no release" """
    if spans:
        return ", ".join(map(str, spans))
    return "no release"
