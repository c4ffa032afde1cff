"""What further runs add to a capture: the memory bandwidth, the rerun without fallback, the timed run, the
tries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

from fusiondoc.captures.ending import Ended
from fusiondoc.model.runs import Try


@dataclass(frozen=True)
class FoundError:
    """An error of a fuser; ``kind`` as ``parsers.lines.error_texts`` has it."""

    text: str
    kind: str | None = None


@dataclass(frozen=True)
class Rerun:
    """What the rerun without fallback showed (``rerun.json``)."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """What switched the fallback off."""
    capture: str | None = None
    """Its folder, inside the capture of the first run."""
    ended: Ended | None = None
    signal: str | None = None
    error: FoundError | None = None


@dataclass(frozen=True)
class TimedRun:
    """The run of ``--time`` (``timing.json``)."""

    capture: str | None = None
    """Its folder, inside the capture of the first run; None if it did not run."""
    problem: str | None = None
    """Why there is no speed."""
    dropped: tuple[str, ...] = ()
    """Variables of the user that it was without."""


@dataclass(frozen=True)
class Tries:
    """The runs of ``--try`` (``tries.json``); the first is the run as it was asked for."""

    tries: tuple[Try, ...] = ()
