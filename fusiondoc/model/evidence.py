"""Evidence: lines of logs that prove the statements of a report."""

from __future__ import annotations

from fusiondoc.model import dataclass


@dataclass(frozen=True)
class Evidence:
    """A line of a log. ``line`` counts from 1 in the file as it is on disk (after
    decompression)."""

    file: str
    line: int
